package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/larder-dev/larder/bench/internal/report"
	"github.com/larder-dev/larder/bench/internal/runner"
)

// settings are the flags.
type settings struct {
	runner.Options
	quick         bool
	pods, only    string
	results, docs string
	render, into  string
	starts        string
	startSizes    []int
}

// quickEffort and quickRuns are those of a run that is to take less than ten minutes.
const (
	quickEffort = 0.1
	quickRuns   = 3
	fullRuns    = 5
)

func parse(args []string, stderr io.Writer) (*settings, error) {
	s := &settings{}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.BoolVar(&s.quick, "quick", false, "10,000 pods, 3 runs, short measurements: less than ten minutes")
	flags.StringVar(&s.pods, "pods", "10000,100000", "`numbers` of pods, with commas between them")
	flags.IntVar(&s.ConfigMaps, "configmaps", 2000, "`number` of ConfigMaps of 100 KB; 0 for none")
	flags.IntVar(&s.Widgets, "widgets", 1_000_000, "`number` of small custom resources; 0 for none")
	flags.IntVar(&s.Runs, "runs", fullRuns, "how `often` each case is run")
	flags.StringVar(&s.starts, "starts", "", "measure nothing but starts to HasSynced, 15 of each informer, with these `numbers` of pods")
	flags.StringVar(&s.only, "only", "", "run only scenarios whose name matches this regular `expression`")
	flags.Float64Var(&s.Effort, "effort", 1, "`part` of the full length of what can be cut short")
	flags.BoolVar(&s.EmbeddedOnly, "embedded", false, "use the embedded API server throughout")
	flags.StringVar(&s.results, "results", "results", "`directory` for <run>.json and the pictures")
	flags.StringVar(&s.docs, "docs", "", "write this Markdown `file`, too")
	flags.StringVar(&s.render, "render", "", "run nothing: print and draw this <run>.json again")
	flags.StringVar(&s.into, "into", "", "put what is measured into this <run>.json of the same machine, in place of what it has of the same scenarios")
	flags.StringVar(&s.Profile, "profile", "", "`directory` for profiles of processor and heap of each case; they slow it down a little")
	flags.StringVar(&s.Dir, "dir", os.TempDir(), "`directory` for the files of the run")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if flags.NArg() > 0 {
		return nil, fmt.Errorf("unknown argument %q; see bench -help", flags.Arg(0))
	}
	return s, s.finish(given(flags))
}

// given returns the names of the flags that were set.
func given(flags *flag.FlagSet) []string {
	var names []string
	flags.Visit(func(f *flag.Flag) { names = append(names, f.Name) })
	return names
}

// finish fills in what follows from the flags.
func (s *settings) finish(given []string) error {
	if s.quick {
		quickDefaults := map[string]func(){
			"pods":       func() { s.pods = "10000" },
			"configmaps": func() { s.ConfigMaps = 0 },
			"widgets":    func() { s.Widgets = 0 },
			"runs":       func() { s.Runs = quickRuns },
			"effort":     func() { s.Effort = quickEffort },
		}
		for name, set := range quickDefaults {
			if !slices.Contains(given, name) {
				set()
			}
		}
	}
	for text := range strings.SplitSeq(s.pods, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil {
			return fmt.Errorf("-pods takes numbers: %w", err)
		}
		s.Pods = append(s.Pods, n)
	}
	var err error
	if s.startSizes, err = numbers(s.starts); err != nil {
		return fmt.Errorf("-starts: %w", err)
	}
	if s.Profile != "" {
		if s.Profile, err = filepath.Abs(s.Profile); err == nil {
			err = os.MkdirAll(s.Profile, 0o755)
		}
	}
	if err != nil || s.only == "" {
		return err
	}
	s.Only, err = regexp.Compile("^(" + s.only + ")$")
	return err
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	s, err := parse(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	if len(s.startSizes) > 0 {
		return s.measureStarts(ctx, args, stdout, stderr)
	}
	path := s.render
	var failed error
	if path == "" {
		if path, failed = s.measure(ctx, args, stderr); path == "" {
			return failed
		}
	}
	return errors.Join(failed, s.publish(path, stdout, stderr))
}

// measure runs the benchmark and returns the name of its record, which exists even if some cases have failed.
func (s *settings) measure(ctx context.Context, args []string, stderr io.Writer) (string, error) {
	earlier, err := s.earlier()
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp(s.Dir, "larder-bench-")
	if err != nil {
		return "", err
	}
	s.Dir, s.Progress = dir, stderr
	outcome, failed := runner.Run(ctx, s.Options)
	failed = errors.Join(failed, os.RemoveAll(dir))
	if len(outcome.Samples) == 0 {
		return "", errors.Join(errors.New("nothing was measured"), failed)
	}
	id := time.Now().UTC().Format("20060102-150405")
	if s.quick {
		id = "quick-" + id
	}
	record := report.Run{
		ID: id, Command: strings.Join(append([]string{"go -C bench run ."}, quoted(args)...), " "),
		Machine: machine(), Server: outcome.Server, Commit: commit(ctx),
		Rows: report.Build(outcome.Samples, report.Goals, report.Command{Runs: s.Runs, Quick: s.quick, Embedded: s.EmbeddedOnly}),
	}
	if earlier != nil {
		record = report.Merge(*earlier, record, report.Goals)
	}
	path, err := report.Write(s.results, record)
	return path, errors.Join(failed, err)
}

// earlier is the record to put the figures into, if there is one.
func (s *settings) earlier() (*report.Run, error) {
	if s.into == "" {
		return nil, nil
	}
	record, err := report.Read(s.into)
	if err != nil {
		return nil, err
	}
	if record.Machine != machine() {
		return nil, fmt.Errorf("%s was measured on %s, this is %s: figures of two machines do not belong side by side", s.into, record.Machine, machine())
	}
	s.results = filepath.Dir(s.into)
	return &record, nil
}

// quoted returns the arguments as a shell takes them.
func quoted(args []string) []string {
	out := slices.Clone(args)
	for i, arg := range out {
		if strings.ContainsAny(arg, "|&;<>()$`\\\"' *?[") {
			out[i] = "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
		}
	}
	return out
}

// publish prints and draws a record.
func (s *settings) publish(path string, stdout, stderr io.Writer) error {
	record, err := report.Read(path)
	if err != nil {
		return err
	}
	report.Judge(record.Rows, report.Goals)
	if err := report.Text(stdout, record); err != nil {
		return err
	}
	names, err := drawAll(filepath.Dir(path), record)
	if err != nil {
		return err
	}
	fmt.Fprintln(stderr, "Wrote", path)
	if s.docs == "" {
		return nil
	}
	if err := drawRestart(filepath.Join(filepath.Dir(s.docs), "img"), record); err != nil {
		return err
	}
	return writeDocs(s.docs, record, names)
}

// drawRestart draws the picture of the README, of the most pods that were measured.
func drawRestart(dir string, record report.Run) error {
	most := 0
	for _, r := range record.Rows {
		if r.Kind == report.GoalsFor {
			most = max(most, r.N)
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	_, err := report.RestartPlot(dir, most, record.Rows)
	return err
}

// drawAll draws a picture for each number of objects.
func drawAll(dir string, record report.Run) (names []string, err error) {
	type place struct {
		kind string
		n    int
	}
	drawn := map[place]bool{}
	pictures := filepath.Join(dir, record.ID)
	if err := os.MkdirAll(pictures, 0o755); err != nil {
		return nil, err
	}
	for _, r := range record.Rows {
		if p := (place{r.Kind, r.N}); !drawn[p] {
			drawn[p] = true
			some, err := report.Plots(pictures, r.Kind, r.N, record.Rows)
			if err != nil {
				return nil, err
			}
			for _, name := range some {
				names = append(names, filepath.Join(pictures, name))
			}
		}
	}
	return names, nil
}

// writeDocs writes the page, with links to the pictures from where it is.
func writeDocs(path string, record report.Run, pictures []string) error {
	var links []string
	for _, p := range pictures {
		link, err := linkTo(p, path)
		if err != nil {
			return err
		}
		links = append(links, link)
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(f)
	return errors.Join(report.Markdown(out, record, links), out.Flush(), f.Close())
}

// linkTo returns the way from a page to a file, wherever the two are.
func linkTo(file, page string) (string, error) {
	file, err := filepath.Abs(file)
	if err != nil {
		return "", err
	}
	if page, err = filepath.Abs(page); err != nil {
		return "", err
	}
	link, err := filepath.Rel(filepath.Dir(page), file)
	return filepath.ToSlash(link), err
}

func machine() string {
	return fmt.Sprintf("%s/%s, %d cores, %s", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version())
}

// commit is what git calls the source; "unknown" outside of a repository.
func commit(ctx context.Context) string {
	out, err := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}
