package report

import (
	"image/color"
	"path/filepath"
	"slices"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/larder-dev/larder/bench/internal/chart"
	"github.com/larder-dev/larder/bench/internal/scenario"
)

// RestartPicture is the name of the picture that RestartPlot draws.
const RestartPicture = "restart.svg"

// bar is one bar of the picture of a restart.
type bar struct {
	name  string
	value float64
	color color.Color
}

// RestartPlot draws into dir what a restart with n pods costs, beside client-go: the time to HasSynced with both
// policies, and the bytes received. It draws nothing, and returns false, if the rows have no such restart.
func RestartPlot(dir string, n int, rows []Row) (bool, error) {
	row := func(metric string) *Row {
		i := slices.IndexFunc(rows, func(r Row) bool {
			return r.Metric == metric && r.Kind == GoalsFor && r.N == n && r.Residency == all && r.Against == "" &&
				r.Larder != nil && r.ClientGo != nil && r.ClientGoList != nil
		})
		if i < 0 {
			return nil
		}
		return &rows[i]
	}
	resumed, disk, received := row("restart/synced_resumed"), row("restart/synced_disk"), row("restart/bytes")
	if resumed == nil || disk == nil || received == nil {
		return false, nil
	}
	larder, goDefault, goList := series[0].color, series[3].color, series[4].color
	panels := []struct {
		title string
		unit  scenario.Unit
		bars  []bar
	}{
		{"Time to HasSynced after a restart, " + count(float64(n)) + " pods", scenario.Seconds, []bar{
			{"client-go", *resumed.ClientGo, goDefault},
			{"client-go, LIST", *resumed.ClientGoList, goList},
			{"Larder, Resumed", *resumed.Larder, larder},
			{"Larder, Disk", *disk.Larder, larder},
		}},
		{"Bytes received", scenario.Bytes, []bar{
			{"client-go", *received.ClientGo, goDefault},
			{"client-go, LIST", *received.ClientGoList, goList},
			{"Larder", *received.Larder, larder},
		}},
	}
	height := vg.Length(2 * margin)
	for _, p := range panels {
		height += barsHeight(p.bars)
	}
	return true, chart.Write(filepath.Join(dir, RestartPicture), height, func(c draw.Canvas) error {
		top := c.Max.Y - margin
		for _, p := range panels {
			drawBars(c, top, p.title, p.unit, p.bars)
			top -= barsHeight(p.bars)
		}
		return nil
	})
}

// The measures of the bars: a panel has a title, and a line for each bar with its name, the bar and its value.
const (
	barTitle = 28
	barLine  = 24
	barThick = 14
	nameRoom = 120
	textRoom = 70
)

func barsHeight(bars []bar) vg.Length { return barTitle + vg.Length(len(bars))*barLine + margin }

// drawBars draws a panel below top. Lengths are in proportion, the longest fills the room; none is shorter than a line.
func drawBars(c draw.Canvas, top vg.Length, title string, unit scenario.Unit, bars []bar) {
	style, head := chart.Text(), chart.Text()
	head.Font.Size = chart.TitleSize
	c.FillText(head, vg.Point{X: c.Min.X + margin, Y: top - barTitle*2/3}, title)
	most := slices.MaxFunc(bars, func(a, b bar) int {
		if a.value < b.value {
			return -1
		}
		return 1
	}).value
	left := c.Min.X + margin + nameRoom
	room := c.Max.X - margin - textRoom - left
	for i, b := range bars {
		middle := top - barTitle - vg.Length(i)*barLine - barLine/2
		end := left + max(room*vg.Length(b.value/most), 1.5)
		c.FillText(style, vg.Point{X: c.Min.X + margin, Y: middle - chart.FontSize/3}, b.name)
		c.FillPolygon(b.color, []vg.Point{
			{X: left, Y: middle - barThick/2}, {X: end, Y: middle - barThick/2},
			{X: end, Y: middle + barThick/2}, {X: left, Y: middle + barThick/2},
		})
		c.FillText(style, vg.Point{X: end + 6, Y: middle - chart.FontSize/3}, Figure(b.value, unit))
	}
}
