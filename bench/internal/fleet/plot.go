package fleet

import (
	"bytes"
	"image/color"
	"math"
	"os"
	"slices"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// panels are the rows of the picture; a column is a scenario.
var panels = []struct {
	label string
	// least is what zero is drawn as on a logarithmic scale; most is the end of a linear one, which begins with zero.
	least, most float64
	of          func(series) []float64
}{
	{label: "requests a second", least: 0.1, of: func(s series) []float64 { return s.Requests }},
	{label: "MB a second", least: 0.001, of: func(s series) []float64 { return s.MB }},
	{label: "cores busy", most: serverCores, of: func(s series) []float64 { return s.Cores }},
	{label: "agents up to date, %", most: 100, of: func(s series) []float64 { return s.Level }},
}

// colors tell the clients apart without red and green.
var colors = map[string]color.RGBA{
	larder.Name:      {0, 114, 178, 255},
	spreading.Name:   {86, 180, 233, 255},
	clientGo.Name:    {213, 94, 0, 255},
	clientGoGet.Name: {230, 159, 0, 255},
}

// The size of the picture.
const (
	width  = 52 * vg.Centimeter
	height = 24 * vg.Centimeter
)

// writePlot draws all runs into an SVG file.
func writePlot(path string, runs []summary) error {
	canvas := vgsvg.New(width, height)
	if err := drawPlot(draw.New(canvas), runs); err != nil {
		return err
	}
	var out bytes.Buffer
	if _, err := canvas.WriteTo(&out); err != nil {
		return err
	}
	return os.WriteFile(path, out.Bytes(), 0o644)
}

func drawPlot(canvas draw.Canvas, runs []summary) error {
	plots := make([][]*plot.Plot, len(panels))
	for row := range panels {
		for _, sc := range scenarios {
			p, err := drawPanel(row, sc, runs)
			if err != nil {
				return err
			}
			plots[row] = append(plots[row], p)
		}
	}
	tiles := draw.Tiles{Rows: len(panels), Cols: len(scenarios), PadX: vg.Centimeter / 2, PadY: vg.Centimeter / 4, PadTop: vg.Centimeter / 4, PadRight: vg.Centimeter / 2}
	for row, canvases := range plot.Align(plots, tiles, canvas) {
		for col, c := range canvases {
			plots[row][col].Draw(c)
		}
	}
	return nil
}

func drawPanel(row int, sc scenario, runs []summary) (*plot.Plot, error) {
	panel := panels[row]
	p := plot.New()
	p.Y.Label.Text = panel.label
	p.Add(plotter.NewGrid())
	if row == 0 {
		p.Title.Text = sc.Title
		p.Legend.Top = true
	}
	if row == len(panels)-1 {
		p.X.Label.Text = "minutes"
	}
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
		if row == 0 {
			p.Legend.Add(run.Client, line)
		}
	}
	p.X.Min = 0
	if panel.most > 0 {
		p.Y.Min, p.Y.Max = 0, panel.most
	}
	return p, nil
}

// decades are the ticks of a logarithmic scale, as plain numbers.
type decades struct{}

// Ticks implements plot.Ticker.
func (decades) Ticks(least, most float64) []plot.Tick {
	ticks := plot.LogTicks{Prec: -1}.Ticks(least, most)
	for i := range ticks {
		if ticks[i].Label != "" {
			ticks[i].Label = strconv.FormatFloat(ticks[i].Value, 'f', -1, 64)
		}
	}
	return ticks
}

// points are a value for each step; of a long run, for each minute, since what a list brings is counted when it is done.
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
