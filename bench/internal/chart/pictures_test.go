package chart_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"gonum.org/v1/plot/vg"

	"github.com/larder-dev/larder/bench/internal/chart"
)

var written = regexp.MustCompile(`<text x="([-0-9.]+)" y="([-0-9.]+)"[^>]*font-size:(\d+)px">([^<]*)</text>`)

// TestPicturesAreNotCut checks that no text in a picture of the documentation crosses an edge or overlaps the next
// text, in the font of the layout.
func TestPicturesAreNotCut(t *testing.T) {
	results, err := filepath.Glob("../../results/*/*.svg")
	if err != nil {
		t.Fatal(err)
	}
	pictures := append(results, "../../../docs/img/restart.svg", "../../../docs/img/fleet.svg")
	for _, path := range pictures {
		svg, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		texts := written.FindAllSubmatch(svg, -1)
		if len(texts) == 0 {
			t.Errorf("%s: no text was found", path)
		}
		ends := map[string]vg.Length{} // end of the previous text, by line; axis labels are ordered from left to right
		for _, text := range texts {
			x, _ := strconv.ParseFloat(string(text[1]), 64)
			size, _ := strconv.ParseFloat(string(text[3]), 64)
			style := chart.Text(vg.Length(size))
			begin, line := vg.Length(x), string(text[2])
			end := begin + style.Width(string(text[4]))
			if begin < ends[line] || end > chart.Width {
				t.Errorf("%s: %q goes from %.1f to %.1f, of %.1f to %v", path, text[4], begin, end, ends[line], chart.Width)
			}
			ends[line] = end
		}
	}
}
