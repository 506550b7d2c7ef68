package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/larder-dev/larder/bench/internal/larder"
	"github.com/larder-dev/larder/bench/internal/report"
	"github.com/larder-dev/larder/bench/internal/runner"
	"github.com/larder-dev/larder/bench/internal/scenario"
	"github.com/larder-dev/larder/bench/internal/seeded"
)

// TestMain also acts as the program that the tests start in a process for each benchmark case.
func TestMain(m *testing.M) {
	children := map[string]func(context.Context, io.Reader, io.Writer) error{
		runner.ChildArgument: runner.Child, seeded.ChildArgument: seeded.Child,
	}
	if len(os.Args) > 1 && os.Args[1] == larder.Argument {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		os.Exit(larder.Main(ctx, os.Args[2:]))
	}
	if len(os.Args) > 1 && children[os.Args[1]] != nil {
		if err := children[os.Args[1]](context.Background(), os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

func TestEverything(t *testing.T) {
	// By default, the race detector lets every process sleep for a second at its end.
	t.Setenv("GORACE", "atexit_sleep_ms=0")
	dir := t.TempDir()
	results, docs := filepath.Join(dir, "results"), filepath.Join(dir, "benchmarks.md")
	var stdout, stderr bytes.Buffer
	err := run(t.Context(), []string{
		"-quick", "-embedded", "-pods", "200", "-configmaps", "10", "-widgets", "50", "-runs", "1", "-effort", "0.02",
		"-dir", dir, "-results", results, "-docs", docs,
	}, &stdout, &stderr)
	if err != nil {
		t.Fatalf("%v\n%s", err, stderr.String())
	}
	files, err := filepath.Glob(filepath.Join(results, "quick-*.json"))
	if err != nil || len(files) != 1 {
		t.Fatalf("records: %v, %v", files, err)
	}
	record, err := report.Read(files[0])
	if err != nil {
		t.Fatal(err)
	}
	rows := record.Rows()
	for _, s := range scenario.All() {
		for _, m := range s.Metrics {
			measured := slices.ContainsFunc(rows, func(r report.Row) bool {
				return r.Scenario == s.Name && r.Metric.Key == m.Key && r.Metric.Against == m.Against &&
					(r.Ratio != nil || m.Against == scenario.Nothing)
			})
			// The embedded server has no separate process, and a case with fewer objects is missing.
			if m.Key != scenario.ServerCPU && m.Against != scenario.Fewer && !measured {
				t.Errorf("%s/%s against %q was not measured", s.Name, m.Key, m.Against)
			}
		}
	}
	page, err := os.ReadFile(docs)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), "-only relist") {
		t.Errorf("the page lacks commands:\n%s", page)
	}
	if !strings.Contains(stdout.String(), "goals") || !strings.Contains(stderr.String(), "cases;") {
		t.Errorf("printed:\n%s\n%s", stdout.String(), stderr.String())
	}
	if left, err := filepath.Glob(filepath.Join(dir, "larder-bench-*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestSeeds checks that starts from a seed send no list, and that other starts send one list each. It runs few stores
// on the embedded server.
func TestSeeds(t *testing.T) {
	t.Setenv("GORACE", "atexit_sleep_ms=0")
	dir := t.TempDir()
	var stdout, stderr bytes.Buffer
	args := []string{"-seeds", "2x300,3x20", "-changed", "5", "-runs", "1", "-embedded", "-dir", dir}
	if err := run(t.Context(), args, &stdout, &stderr); err != nil {
		t.Fatalf("%v\n%s", err, stderr.String())
	}
	for _, row := range []string{
		"3 × 20 pods at once, medians of 1; the seed lacks 5 changes:", "2 × 300 pods at once",
		"| requests for lists, a page each | 3 | 0 |  |", "| requests for lists, a page each | 2 | 0 |  |",
	} {
		if !strings.Contains(stdout.String(), row) {
			t.Errorf("there is no %q:\n%s", row, stdout.String())
		}
	}
	if left, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestSizes checks the measurement of larder sync in a separate process, with few objects.
func TestSizes(t *testing.T) {
	t.Setenv("GORACE", "atexit_sleep_ms=0")
	dir := t.TempDir()
	var stdout, stderr bytes.Buffer
	if err := run(t.Context(), []string{"-sizes", "20xconfigmaps,50xwidgets", "-dir", dir}, &stdout, &stderr); err != nil {
		t.Fatalf("%v\n%s", err, stderr.String())
	}
	row := regexp.MustCompile(`(?m)^\| (\d+) \| [\d.]+ KB( \| [\d.]+ ?\w*){8} \|$`)
	if rows := row.FindAllString(stdout.String(), -1); len(rows) != 2 {
		t.Errorf("%d rows:\n%s", len(rows), stdout.String())
	}
	if left, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestInto checks that -into adds results to a result file, and refuses a result file of another machine.
func TestInto(t *testing.T) {
	t.Setenv("GORACE", "atexit_sleep_ms=0")
	dir := t.TempDir()
	measure := func(args ...string) (string, error) {
		var stdout, stderr bytes.Buffer
		common := []string{
			"-quick", "-embedded", "-pods", "100", "-runs", "1", "-effort", "0.01", "-dir", dir, "-results", dir,
		}
		err := run(t.Context(), append(common, args...), &stdout, &stderr)
		return stdout.String(), err
	}
	if _, err := measure("-only", "restart"); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "quick-*.json"))
	if err != nil || len(files) != 1 {
		t.Fatalf("records: %v, %v", files, err)
	}
	text, err := measure("-only", "relist", "-into", files[0])
	if err != nil {
		t.Fatal(err)
	}
	record, err := report.Read(files[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"restart", "relist"} {
		has := slices.ContainsFunc(record.Rows(), func(r report.Row) bool { return r.Scenario == name })
		if !has || !strings.Contains(record.Command, "-only "+name) {
			t.Errorf("%s is not in the record:\n%s", name, text)
		}
	}
	record.Machine = "another"
	if _, err := record.Write(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := measure("-only", "relist", "-into", files[0]); err == nil || !strings.Contains(err.Error(), "another") {
		t.Errorf("the figures of another machine: %v", err)
	}
}

func TestWrongArguments(t *testing.T) {
	for _, args := range [][]string{
		{"-seeds", "20"}, {"-seeds", "20x0"}, {"-pods", "many"}, {"-only", "("}, {"surplus"},
		{"-render", "nowhere.json"}, {"-into", "nowhere.json"},
	} {
		var stdout, stderr bytes.Buffer
		if err := run(t.Context(), args, &stdout, &stderr); err == nil {
			t.Errorf("%v was accepted", args)
		}
	}
}

// TestCommandsCanBeRun checks that this program accepts the command lines that a stored result names for its
// repetition.
func TestCommandsCanBeRun(t *testing.T) {
	command := report.Asked{Runs: 7, Flags: "-quick -embedded"}.Command("restart", "configmaps", 10)
	s, err := parse(strings.Fields(command)[len([]string{"go", "-C", "bench", "run", "."}):], &bytes.Buffer{})
	if err != nil {
		t.Fatal(err)
	}
	if s.Runs != 7 || s.ConfigMaps != 10 || s.Widgets != 0 || !slices.Equal(s.Pods, []int{0}) || !s.quick ||
		!s.EmbeddedOnly || !s.Only.MatchString("restart") {
		t.Errorf("%s: %+v", command, s)
	}
}

func TestQuoted(t *testing.T) {
	got := quoted([]string{"-only", "cold|reads", "it's"})
	if want := []string{"-only", "'cold|reads'", `'it'\''s'`}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestQuickDefaults(t *testing.T) {
	s, err := parse([]string{"-quick", "-runs", "7"}, &bytes.Buffer{})
	if err != nil {
		t.Fatal(err)
	}
	if s.Runs != 7 || !slices.Equal(s.Pods, []int{10_000}) || s.Effort != 0.1 || s.Widgets != 0 {
		t.Errorf("%+v", s)
	}
}
