package fleet

import (
	"image/color"
	"math"
	"slices"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/larder-dev/larder/bench/internal/chart"
)

type panel struct {
	label string
	// least is the lower bound of a logarithmic axis. most is the upper end of a linear axis, which begins with zero.
	least, most float64
	of          func(series) []float64
}

var panels = []panel{
	{label: "requests a second", least: 0.1, of: func(s series) []float64 { return s.Requests }},
	{label: "MB a second", least: 0.001, of: func(s series) []float64 { return s.MB }},
	{label: "cores busy", most: serverCores, of: func(s series) []float64 { return s.Cores }},
	{label: "agents up to date, %", most: 100, of: func(s series) []float64 { return s.Level }},
}

// colors distinguish the clients without red and green.
var colors = map[string]color.RGBA{
	larder.Name:      {0, 114, 178, 255},
	spreading.Name:   {86, 180, 233, 255},
	seeded.Name:      {0, 158, 115, 255},
	clientGo.Name:    {213, 94, 0, 255},
	clientGoGet.Name: {230, 159, 0, 255},
}

// The picture has a block for each scenario: its title, and two rows of two panels.
const (
	columns     = 2
	panelHeight = 150 * vg.Length(1)
	titleHeight = 30 * vg.Length(1)
	margin      = 8 * vg.Length(1)
)

func writePlot(path string, runs []summary) error {
	var legend []chart.Item
	drawn := slices.DeleteFunc(slices.Clone(scenarios), func(sc scenario) bool {
		return !slices.ContainsFunc(runs, func(run summary) bool { return run.Scenario == sc.Name })
	})
	for _, run := range runs {
		if !slices.ContainsFunc(legend, func(i chart.Item) bool { return i.Name == run.Client }) {
			legend = append(legend, chart.Item{Name: run.Client, Color: colors[run.Client]})
		}
	}
	high := chart.LegendHeight(legend, margin)
	block := titleHeight + vg.Length(len(panels)/columns)*panelHeight
	return chart.Write(path, high+vg.Length(len(drawn))*block+margin, func(c draw.Canvas) error {
		chart.Legend(draw.Crop(c, margin, -margin, 0, 0), legend)
		for i, sc := range drawn {
			top := c.Max.Y - high - vg.Length(i)*block
			area := draw.Canvas{Canvas: c.Canvas, Rectangle: vg.Rectangle{
				Min: vg.Point{X: c.Min.X + margin, Y: top - block}, Max: vg.Point{X: c.Max.X - margin, Y: top},
			}}
			if err := drawScenario(area, sc, runs); err != nil {
				return err
			}
		}
		return nil
	})
}

func drawScenario(c draw.Canvas, sc scenario, runs []summary) error {
	c.FillText(chart.Text(chart.TitleSize), vg.Point{X: c.Min.X, Y: c.Max.Y - titleHeight*2/3}, sc.Title)
	var plots [][]*plot.Plot
	for row := range slices.Chunk(panels, columns) {
		var line []*plot.Plot
		for _, p := range row {
			drawn, err := drawPanel(p, sc, runs)
			if err != nil {
				return err
			}
			line = append(line, drawn)
		}
		plots = append(plots, line)
	}
	tiles := draw.Tiles{Rows: len(plots), Cols: columns, PadX: 2 * margin, PadY: margin}
	for row, canvases := range plot.Align(plots, tiles, draw.Crop(c, 0, -margin, 0, -titleHeight)) {
		for col, canvas := range canvases {
			plots[row][col].Draw(canvas)
		}
	}
	return nil
}

func drawPanel(panel panel, sc scenario, runs []summary) (*plot.Plot, error) {
	p := chart.New()
	p.Title.Text, p.Title.TextStyle.Font.Size = panel.label, chart.FontSize
	p.X.Label.Text = "minutes"
	p.Add(plotter.NewGrid())
	if panel.least > 0 {
		p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, decades{}
	}
	for _, run := range runs {
		if run.Scenario != sc.Name {
			continue
		}
		line, err := plotter.NewLine(points(panel.of(run.Series), panel.least))
		if err != nil {
			return nil, err
		}
		line.Color, line.Width = colors[run.Client], vg.Points(1.5)
		p.Add(line)
	}
	p.X.Min = 0
	if panel.most > 0 {
		p.Y.Min, p.Y.Max = 0, panel.most
	}
	return p, nil
}

// decades draws the ticks of a logarithmic axis as plain numbers: 1, 10, 100.
type decades struct{}

func (decades) Ticks(least, most float64) []plot.Tick {
	ticks := plot.LogTicks{Prec: -1}.Ticks(least, most)
	for i := range ticks {
		if ticks[i].Label != "" {
			ticks[i].Label = strconv.FormatFloat(ticks[i].Value, 'f', -1, 64)
		}
	}
	return ticks
}

// points returns a point for each measured step of time. Long runs get a point for each minute, because the bytes of a
// list are counted only at its end.
func points(values []float64, least float64) (xys plotter.XYs) {
	mean := 1
	if len(values)*step > 15*60 {
		mean = 60 / step
	}
	end := 0
	for part := range slices.Chunk(values, mean) {
		end += len(part)
		sum := 0.0
		for _, v := range part {
			sum += v
		}
		xys = append(xys, plotter.XY{X: float64(end) * step / 60, Y: math.Max(sum/float64(len(part)), least)})
	}
	return xys
}
