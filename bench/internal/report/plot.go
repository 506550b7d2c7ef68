package report

import (
	"fmt"
	"image/color"
	"math"
	"os"
	"path/filepath"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/larder-dev/larder/bench/internal/chart"
	"github.com/larder-dev/larder/bench/internal/scenario"
	"github.com/larder-dev/larder/bench/internal/subject"
)

// pictures are the SVG files: rows of one unit, on one logarithmic scale. Dots, since a bar has no beginning on such a
// scale.
var pictures = []struct {
	name, title string
	unit        scenario.Unit
}{
	{"time", "Time", scenario.Seconds},
	{"bytes", "Bytes", scenario.Bytes},
	{"rate", "Operations a second", scenario.PerSecond},
	{"latency", "Time of one operation", scenario.Microseconds},
}

// series are the subjects, each with a colour that tells it apart without red and green.
var series = []struct {
	name  string
	color color.RGBA
	shape draw.GlyphDrawer
	of    func(Row) *Summary
}{
	{"Larder All", color.RGBA{0, 114, 178, 255}, draw.CircleGlyph{}, larderOf(subject.All)},
	{"Larder Bounded", color.RGBA{86, 180, 233, 255}, draw.CircleGlyph{}, larderOf(subject.Bounded)},
	{"Larder None", color.RGBA{0, 60, 110, 255}, draw.CircleGlyph{}, larderOf(subject.None)},
	{"client-go", color.RGBA{213, 94, 0, 255}, draw.BoxGlyph{}, func(r Row) *Summary { return r.ClientGo }},
	{"client-go, LIST", color.RGBA{230, 159, 0, 255}, draw.PyramidGlyph{}, func(r Row) *Summary { return r.ClientGoList }},
}

func larderOf(residency string) func(Row) *Summary {
	return func(r Row) *Summary {
		if r.Residency != residency {
			return nil
		}
		return &r.Larder
	}
}

// Pictures draws the rows of each kind and number of objects into dir, and returns the names of the files. What has no
// rows gets no picture.
func Pictures(dir string, rows []Row) ([]string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	var names []string
	for _, row := range rows {
		for _, picture := range pictures {
			name := filepath.Join(dir, fmt.Sprintf("%s-%s-%d.svg", picture.name, row.Kind, row.N))
			chosen := slices.DeleteFunc(slices.Clone(rows), func(r Row) bool {
				return r.Kind != row.Kind || r.N != row.N || r.Metric.Unit != picture.unit || r.Metric.Against != ""
			})
			if len(chosen) == 0 || slices.Contains(names, name) {
				continue
			}
			title := fmt.Sprintf("%s, %s %s", picture.title, count(float64(row.N)), row.Kind)
			if err := drawPicture(name, title, picture.unit, chosen); err != nil {
				return nil, err
			}
			names = append(names, name)
		}
	}
	return names, nil
}

// The height of what a picture has for each scenario, above the first and below the last.
const (
	rowHeight = 64
	headRoom  = 30
	footRoom  = 34
)

// Within a row of height 1, from its place: its name, the first series, and how far below it the next is, so that no
// dot hides another.
const (
	labelPlace = 0.32
	seriesTop  = 0.16
	seriesGap  = 0.12
)

const (
	// margin is what is left free at the edges.
	margin = 10
	// side is that beside the data: a tick's label reaches half its width over the end of the axis.
	side = 28
)

// drawPicture gives every figure a line, the first at the top.
func drawPicture(path, title string, unit scenario.Unit, rows []Row) error {
	p := chart.New()
	p.Title.Text = title
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, unitTicks{unit}
	p.HideY()
	grid := plotter.NewGrid()
	grid.Horizontal.Width = 0
	p.Add(grid)
	var labels []string
	for _, r := range rows {
		if !slices.Contains(labels, r.label()) {
			labels = append(labels, r.label())
		}
	}
	slices.Reverse(labels)
	var legend []chart.Item
	for i, s := range series {
		data := pointsOf(rows, labels, seriesTop-float64(i)*seriesGap, s.of)
		if len(data.XYs) == 0 {
			continue
		}
		if err := addSeries(p, s.color, s.shape, data); err != nil {
			return err
		}
		legend = append(legend, chart.Item{Name: s.name, Color: s.color, Shape: s.shape})
	}
	p.Y.Min, p.Y.Max = -0.5, float64(len(labels))-0.35
	p.X.Min, p.X.Max = p.X.Min/2, p.X.Max*2
	if err := addLabels(p, labels); err != nil {
		return err
	}
	high := chart.LegendHeight(legend, margin)
	return chart.Write(path, vg.Length(len(labels))*rowHeight+headRoom+footRoom+high, func(c draw.Canvas) error {
		p.Draw(draw.Crop(c, side, -side, high, -margin))
		chart.Legend(draw.Crop(c, margin, -margin, 0, high-c.Max.Y), legend)
		return nil
	})
}

func (r Row) label() string { return r.Title + ": " + r.Figure }

// addLabels writes the name of each figure above its dots.
func addLabels(p *plot.Plot, labels []string) error {
	at := plotter.XYLabels{Labels: labels}
	for i := range labels {
		at.XYs = append(at.XYs, plotter.XY{X: p.X.Min, Y: float64(i) + labelPlace})
	}
	names, err := plotter.NewLabels(at)
	if err != nil {
		return err
	}
	for i := range names.TextStyle {
		names.TextStyle[i] = chart.Text(chart.FontSize)
	}
	names.Offset.X = 2
	p.Add(names)
	return nil
}

// unitTicks are those of a logarithmic scale, with the unit.
type unitTicks struct{ unit scenario.Unit }

// Ticks implements plot.Ticker.
func (u unitTicks) Ticks(least, most float64) []plot.Tick {
	ticks := plot.LogTicks{}.Ticks(least, most)
	for i := range ticks {
		if ticks[i].Label != "" {
			ticks[i].Label = Figure(ticks[i].Value, u.unit)
		}
	}
	return ticks
}

// points are medians, with how far the least and the most are from them.
type points struct {
	plotter.XYs
	plotter.XErrors
}

func pointsOf(rows []Row, labels []string, above float64, of func(Row) *Summary) points {
	var out points
	for _, r := range rows {
		s := of(r)
		// A logarithm has no place for zero.
		if s == nil || s.Min <= 0 || math.IsInf(s.Max, 0) {
			continue
		}
		y := float64(slices.Index(labels, r.label())) + above
		out.XYs = append(out.XYs, plotter.XY{X: s.Median, Y: y})
		out.XErrors = append(out.XErrors, struct{ Low, High float64 }{s.Median - s.Min, s.Max - s.Median})
	}
	return out
}

func addSeries(p *plot.Plot, c color.RGBA, shape draw.GlyphDrawer, data points) error {
	dots, err := plotter.NewScatter(data.XYs)
	if err != nil {
		return err
	}
	dots.GlyphStyle = draw.GlyphStyle{Color: c, Radius: vg.Points(4), Shape: shape}
	bars, err := plotter.NewXErrorBars(data)
	if err != nil {
		return err
	}
	bars.Color = c
	p.Add(bars, dots)
	return nil
}
