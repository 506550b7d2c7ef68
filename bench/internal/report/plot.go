package report

import (
	"fmt"
	"image/color"
	"math"
	"path/filepath"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/larder-dev/larder/bench/internal/chart"
	"github.com/larder-dev/larder/bench/internal/scenario"
	"github.com/larder-dev/larder/bench/internal/stat"
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
	of    func(Row) *stat.Summary
}{
	{"Larder All", color.RGBA{0, 114, 178, 255}, draw.CircleGlyph{}, larderOf(all)},
	{"Larder Bounded", color.RGBA{86, 180, 233, 255}, draw.CircleGlyph{}, larderOf(bounded)},
	{"Larder None", color.RGBA{0, 60, 110, 255}, draw.CircleGlyph{}, larderOf(none)},
	{"client-go", color.RGBA{213, 94, 0, 255}, draw.BoxGlyph{}, func(r Row) *stat.Summary { return r.Spread.ClientGo }},
	{
		"client-go, LIST", color.RGBA{230, 159, 0, 255}, draw.PyramidGlyph{},
		func(r Row) *stat.Summary { return r.Spread.ClientGoList },
	},
}

func larderOf(residency string) func(Row) *stat.Summary {
	return func(r Row) *stat.Summary {
		if r.Residency != residency {
			return nil
		}
		return &r.Spread.Larder
	}
}

// Plots writes the pictures of the rows with n objects of a kind into dir, and returns their names. What has no rows gets
// no picture.
func Plots(dir, kind string, n int, rows []Row) ([]string, error) {
	var names []string
	for _, picture := range pictures {
		chosen := slices.DeleteFunc(slices.Clone(rows), func(r Row) bool {
			return r.Kind != kind || r.N != n || r.unit() != picture.unit || r.Reference != nil || r.Against != ""
		})
		if len(chosen) == 0 {
			continue
		}
		name := fmt.Sprintf("%s-%s-%d.svg", picture.name, kind, n)
		if err := drawPicture(filepath.Join(dir, name), picture.title+", "+count(float64(n))+" "+kind, chosen); err != nil {
			return names, err
		}
		names = append(names, name)
	}
	return names, nil
}

// The height of what a picture has for each scenario, above the first and below the last.
const (
	rowHeight = 64
	headRoom  = 30
	footRoom  = 34
)

func drawPicture(path, title string, rows []Row) error {
	p := chart.New()
	p.Title.Text = title
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, unitTicks{rows[0].unit()}
	p.HideY()
	grid := plotter.NewGrid()
	grid.Horizontal.Width = 0
	p.Add(grid)
	labels, places := placesOfRows(rows)
	var legend []chart.Item
	for i, s := range series {
		data := pointsOf(rows, places, seriesTop-float64(i)*seriesGap, s.of)
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
	high := chart.Legend(draw.Canvas{Rectangle: vg.Rectangle{Max: vg.Point{X: chart.Width - 2*margin}}}, legend, false)
	return chart.Write(path, vg.Length(len(labels))*rowHeight+headRoom+footRoom+high, func(c draw.Canvas) error {
		p.Draw(draw.Crop(c, side, -side, high, -margin))
		chart.Legend(draw.Crop(c, margin, -margin, 0, high-c.Max.Y), legend, true)
		return nil
	})
}

// Within a row of height 1, from its place: the first series, and how far below it the next is, so that no dot hides
// another.
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

// addLabels writes the name of each scenario above its dots.
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
		names.TextStyle[i] = chart.Text()
	}
	names.Offset.X = 2
	p.Add(names)
	return nil
}

// placesOfRows gives every scenario a line, the first at the top.
func placesOfRows(rows []Row) (labels []string, places map[string]int) {
	for _, r := range rows {
		if !slices.Contains(labels, r.Scenario) {
			labels = append(labels, r.Scenario)
		}
	}
	slices.Reverse(labels)
	places = map[string]int{}
	for i, label := range labels {
		places[label] = i
	}
	return labels, places
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

func pointsOf(rows []Row, places map[string]int, above float64, of func(Row) *stat.Summary) points {
	var out points
	for _, r := range rows {
		s := of(r)
		// A logarithm has no place for zero.
		if s == nil || s.Min <= 0 || math.IsInf(s.Max, 0) {
			continue
		}
		out.XYs = append(out.XYs, plotter.XY{X: s.Median, Y: float64(places[r.Scenario]) + above})
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
