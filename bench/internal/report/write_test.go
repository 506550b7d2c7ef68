package report

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/larder-dev/larder/bench/internal/scenario"
	"github.com/larder-dev/larder/bench/internal/subject"
)

var update = flag.Bool("update", false, "write the golden files")

func TestGolden(t *testing.T) {
	for name, write := range map[string]func(*bytes.Buffer) error{
		"page.md": func(out *bytes.Buffer) error {
			return Markdown(out, testRun())
		},
		"text.txt": func(out *bytes.Buffer) error { return Text(out, testRun()) },
	} {
		var got bytes.Buffer
		if err := write(&got); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join("testdata", name)
		if *update {
			if err := os.WriteFile(path, got.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got.Bytes(), want) {
			t.Errorf("%s differs (go test -update writes it):\n%s", path, got.Bytes())
		}
	}
}

func TestRestartPlot(t *testing.T) {
	dir := t.TempDir()
	var rows []Row
	for _, key := range []string{"synced_resumed", "synced_disk", "bytes"} {
		rows = append(rows, Row{
			Place:  Place{Scenario: "restart", Kind: "pods", N: 100_000},
			Metric: scenario.Metric{Key: key}, Residency: subject.All,
			Larder: Summary{Median: 2}, ClientGo: &Summary{Median: 200}, ClientGoList: &Summary{Median: 100},
		})
	}
	if drawn, err := Restart(dir, rows); err != nil || !drawn {
		t.Fatalf("%v, %v; want a picture", drawn, err)
	}
	data, err := os.ReadFile(filepath.Join(dir, restartPicture))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Larder, Resumed", "Larder, Disk", "200 s", "font-family:Helvetica,Arial,sans-serif"} {
		if !strings.Contains(string(data), want) {
			t.Errorf("the picture lacks %q", want)
		}
	}
	if drawn, err := Restart(dir, rows[1:]); err != nil || drawn {
		t.Errorf("%v, %v of rows that are not there", drawn, err)
	}
}

func TestFigure(t *testing.T) {
	for _, c := range []struct {
		value float64
		unit  scenario.Unit
		want  string
	}{
		{0, scenario.Bytes, "0 B"},
		{0.0123, scenario.Seconds, "12.3 ms"},
		{12.345, scenario.Seconds, "12.3 s"},
		{308e6, scenario.Bytes, "308 MB"},
		{1.1e9, scenario.Bytes, "1.10 GB"},
		{29_600, scenario.PerSecond, "29,600/s"},
		{20, scenario.Count, "20"},
		{0.5, scenario.Microseconds, "0.500 µs"},
		{2500, scenario.Microseconds, "2.50 ms"},
	} {
		if got := Figure(c.value, c.unit); got != c.want {
			t.Errorf("%g %s: %q, want %q", c.value, c.unit, got, c.want)
		}
	}
}

func TestRatioText(t *testing.T) {
	for ratio, want := range map[float64]string{1.0 / 5000: "1/5,000", 0.5: "0.500×", 1.5: "1.50×", 0: "0×"} {
		if got := ratioText(&ratio); got != want {
			t.Errorf("%g: %q, want %q", ratio, got, want)
		}
	}
}

func TestSummarize(t *testing.T) {
	for _, c := range []struct {
		name   string
		values []float64
		want   Summary
	}{
		{"nothing", nil, Summary{}},
		{"one", []float64{3}, Summary{1, 3, 3, 3}},
		{"an outlier does not move the median", []float64{900, 2, 3}, Summary{3, 3, 2, 900}},
		{"an even number", []float64{4, 1, 3, 2}, Summary{4, 2.5, 1, 4}},
	} {
		if got := Summarize(c.values); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
	values := []float64{2, 1}
	Summarize(values)
	if values[0] != 2 {
		t.Error("the values were sorted in place")
	}
}
