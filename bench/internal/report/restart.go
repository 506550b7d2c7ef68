package report

import (
	"cmp"
	"image/color"
	"path/filepath"
	"slices"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/larder-dev/larder/bench/internal/chart"
	"github.com/larder-dev/larder/bench/internal/scenario"
	"github.com/larder-dev/larder/bench/internal/subject"
)

const restartPicture = "restart.svg"

// The colors are distinguishable with red-green color blindness.
var (
	colorLarder   = color.RGBA{0, 114, 178, 255}
	colorClientGo = color.RGBA{213, 94, 0, 255}
	colorList     = color.RGBA{230, 159, 0, 255}
)

const margin = 10

type panel struct {
	title string
	unit  scenario.Unit
	bars  []bar
}

type bar struct {
	name  string
	value float64
	color color.Color
}

// Restart draws a picture into dir that compares restarts with client-go's, for the largest number of pods: the time to
// HasSynced with both sync policies, and the bytes received. It returns false if rows lacks these figures.
func Restart(dir string, rows []Row) (bool, error) {
	most := 0
	for _, r := range rows {
		if r.Kind == scenario.GoalsFor {
			most = max(most, r.N)
		}
	}
	row := func(key string) *Row {
		i := slices.IndexFunc(rows, func(r Row) bool {
			return r.Scenario == "restart" && r.Metric.Key == key && r.Kind == scenario.GoalsFor && r.N == most &&
				r.Residency == subject.All && r.ClientGo != nil && r.ClientGoList != nil
		})
		if i < 0 {
			return nil
		}
		return &rows[i]
	}
	resumed, disk, received := row("synced_resumed"), row("synced_disk"), row("bytes")
	if resumed == nil || disk == nil || received == nil {
		return false, nil
	}
	clients := func(r *Row) []bar {
		return []bar{
			{"client-go", r.ClientGo.Median, colorClientGo}, {"client-go, LIST", r.ClientGoList.Median, colorList},
		}
	}
	panels := []panel{
		{
			"Time to HasSynced after a restart, " + count(float64(most)) + " pods", scenario.Seconds,
			append(clients(resumed), bar{"Larder, Resumed", resumed.Larder.Median, colorLarder},
				bar{"Larder, Disk", disk.Larder.Median, colorLarder}),
		},
		{"Bytes received", scenario.Bytes, append(clients(received), bar{"Larder", received.Larder.Median, colorLarder})},
	}
	height := vg.Length(2 * margin)
	for _, p := range panels {
		height += p.height()
	}
	return true, chart.Write(filepath.Join(dir, restartPicture), height, func(c draw.Canvas) error {
		top := c.Max.Y - margin
		for _, p := range panels {
			p.draw(c, top)
			top -= p.height()
		}
		return nil
	})
}

// The dimensions of one part of the picture: a title, and a line with name, bar and value for each compared informer.
const (
	titleHeight = 28
	barLine     = 24
	barHeight   = 14
	nameWidth   = 120
	textRoom    = 70
)

func (p panel) height() vg.Length { return titleHeight + vg.Length(len(p.bars))*barLine + margin }

// draw draws the title and bars below top. The longest bar fills the width, and the shortest bars have a minimal
// length.
func (p panel) draw(c draw.Canvas, top vg.Length) {
	style := chart.Text(chart.FontSize)
	c.FillText(chart.Text(chart.TitleSize), vg.Point{X: c.Min.X + margin, Y: top - titleHeight*2/3}, p.title)
	most := slices.MaxFunc(p.bars, func(a, b bar) int { return cmp.Compare(a.value, b.value) }).value
	left := c.Min.X + margin + nameWidth
	room := c.Max.X - margin - textRoom - left
	for i, b := range p.bars {
		middle := top - titleHeight - vg.Length(i)*barLine - barLine/2
		end := left + max(room*vg.Length(b.value/most), 1.5)
		c.FillText(style, vg.Point{X: c.Min.X + margin, Y: middle - chart.FontSize/3}, b.name)
		c.FillPolygon(b.color, []vg.Point{
			{X: left, Y: middle - barHeight/2}, {X: end, Y: middle - barHeight/2},
			{X: end, Y: middle + barHeight/2}, {X: left, Y: middle + barHeight/2},
		})
		c.FillText(style, vg.Point{X: end + 6, Y: middle - chart.FontSize/3}, Figure(b.value, p.unit))
	}
}
