package report

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/larder-dev/larder/bench/internal/scenario"
)

var update = flag.Bool("update", false, "write the golden files")

func testRun() Run {
	return Run{
		ID: "20261121-120000", Command: "go -C bench run .", Machine: "linux/amd64, 2 cores", Server: "kube-apiserver v1.36.3",
		Commit: "abc", Rows: Build(samples(), Goals, testCommand),
	}
}

func TestGolden(t *testing.T) {
	for name, write := range map[string]func(*bytes.Buffer) error{
		"page.md": func(out *bytes.Buffer) error {
			return Markdown(out, testRun(), []string{"../bench/results/r/time.svg"})
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

// The names of the record are what others read: they are not to change by accident.
func TestRecord(t *testing.T) {
	run := testRun()
	path, err := Write(filepath.Join(t.TempDir(), "results"), run)
	if err != nil {
		t.Fatal(err)
	}
	read, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(read, run) {
		t.Error("what was read differs from what was written")
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var raw struct {
		Rows []map[string]any `json:"rows"`
	}
	if err := json.Unmarshal(data, &raw); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"scenario", "unit", "n", "residency", "larder", "clientgo", "ratio", "goal", "met"} {
		if _, has := raw.Rows[0][name]; !has {
			t.Errorf("rows have no %s", name)
		}
	}
	if _, err := Read(filepath.Join(t.TempDir(), "none.json")); err == nil {
		t.Error("a file that is not there was read")
	}
}

func TestPlots(t *testing.T) {
	dir := t.TempDir()
	names, err := Plots(dir, GoalsFor, 100_000, testRun().Rows)
	if err != nil {
		t.Fatal(err)
	}
	if len(names) != 3 {
		t.Errorf("%v, want time, bytes and rates", names)
	}
	for _, name := range names {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(data), "</svg>") || !strings.Contains(string(data), "client-go") {
			t.Errorf("%s is no picture", name)
		}
	}
}

func TestRestartPlot(t *testing.T) {
	dir := t.TempDir()
	one := func(v float64) *float64 { return &v }
	var rows []Row
	for _, metric := range []string{"restart/synced_resumed", "restart/synced_disk", "restart/bytes"} {
		rows = append(rows, Row{Metric: metric, Kind: GoalsFor, N: 100_000, Residency: all, Larder: one(2), ClientGo: one(200), ClientGoList: one(100)})
	}
	if drawn, err := RestartPlot(dir, 100_000, rows); err != nil || !drawn {
		t.Fatalf("%v, %v; want a picture", drawn, err)
	}
	data, err := os.ReadFile(filepath.Join(dir, RestartPicture))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Larder, Resumed", "Larder, Disk", "200 s", "font-family:Helvetica,Arial,sans-serif"} {
		if !strings.Contains(string(data), want) {
			t.Errorf("the picture lacks %q", want)
		}
	}
	if drawn, err := RestartPlot(dir, 10_000, rows); err != nil || drawn {
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
