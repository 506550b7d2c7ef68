package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/larder-dev/larder/bench/internal/load"
	"github.com/larder-dev/larder/bench/internal/runner"
	"github.com/larder-dev/larder/bench/internal/seeded"
	"github.com/larder-dev/larder/bench/internal/served"
	"github.com/larder-dev/larder/bench/internal/sizing"
)

type settings struct {
	runner.Options
	quick         bool
	starts        []int
	programs      []runner.Program
	serve         served.Options
	seeds         seeded.Options
	sizes         []sizing.Size
	results, docs string
	render, into  string
	// command is the command line of this process, quoted for a shell.
	command string
}

// quickDefaults are the defaults of flags with -quick, for a run of less than 15 minutes.
var quickDefaults = map[string]string{"pods": "10000", "configmaps": "0", "widgets": "0", "runs": "3", "effort": "0.1"}

func parse(args []string, stderr io.Writer) (*settings, error) {
	s := &settings{command: strings.Join(append([]string{"go -C bench run ."}, quoted(args)...), " ")}
	s.Pods = []int{10_000, 100_000}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.BoolVar(&s.quick, "quick", false, "10,000 pods, 3 runs, short measurements: less than a quarter of an hour")
	flags.Func("pods", "`numbers` of pods, with commas between them (default 10000,100000)", into(&s.Pods, numbers))
	flags.IntVar(&s.ConfigMaps, "configmaps", 2000, "`number` of ConfigMaps of 100 KB; 0 for none")
	flags.IntVar(&s.Widgets, "widgets", 1_000_000, "`number` of small custom resources; 0 for none")
	flags.IntVar(&s.Runs, "runs", 5, "how `often` each case is run")
	flags.Func("starts", "measure nothing but starts to HasSynced, 15 of each informer, with these `numbers` of pods",
		into(&s.starts, numbers))
	flags.Func("programs", "measure nothing but programs with a factory: kinds x objects, how many of each kind change "+
		"while it is down, and the client's QPS (default: several), such as `8x10,8x10+1@5,50x10@none`",
		into(&s.programs, programs))
	flags.IntVar(&s.serve.Pods, "serve", 0,
		"measure nothing but larder sync --serve beside kube-apiserver, with this `number` of pods")
	flags.IntVar(&s.serve.Watchers, "watchers", 1000, "with -serve: `number` of watches")
	flags.IntVar(&s.serve.Shared, "shared", 1, "with -serve: `number` of watches on a connection")
	flags.BoolVar(&s.serve.Hostile, "hostile", false, "with -serve: measure what hostile and slow clients do, instead")
	flags.Float64Var(&s.serve.Rate, "rate", 20, "with -serve: changes a `second` while they watch")
	flags.DurationVar(&s.serve.Last, "last", 30*time.Second, "with -serve: how `long` the changes last")
	flags.Func("seeds", "measure nothing but first starts, from a seed and without one: of so many stores at once of so "+
		"many pods, such as `20x100000,200x1000`", into(&s.seeds.Fleets, fleets))
	flags.IntVar(&s.seeds.Changed, "changed", 0, "with -seeds: `number` of pods that change after the seed was taken")
	flags.Func("sizes", "measure nothing but what larder sync takes for so many objects of a kind, such as "+
		"`1000xpods,1000000xwidgets`; pods have 3 KB, widgets 0.4, configmaps 100", into(&s.sizes, sizes))
	flags.Func("only", "run only scenarios whose name matches this regular `expression`",
		into(&s.Only, func(text string) (*regexp.Regexp, error) { return regexp.Compile("^(" + text + ")$") }))
	flags.Float64Var(&s.Effort, "effort", 1, "`part` of the full length of what can be cut short")
	flags.BoolVar(&s.EmbeddedOnly, "embedded", false, "use the embedded API server throughout")
	flags.StringVar(&s.results, "results", "results", "`directory` for <run>.json")
	flags.StringVar(&s.docs, "docs", "", "write this Markdown `file`, too")
	flags.StringVar(&s.render, "render", "", "run nothing: print this <run>.json again")
	flags.StringVar(&s.into, "into", "",
		"put what is measured into this <run>.json of the same machine, in place of what it has of the same scenarios")
	flags.Func("profile", "`directory` for profiles of processor and heap of each case; they slow it down a little",
		into(&s.Profile, filepath.Abs))
	flags.StringVar(&s.Dir, "dir", os.TempDir(), "`directory` for the files of the run")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if flags.NArg() > 0 {
		return nil, fmt.Errorf("unknown argument %q; see bench -help", flags.Arg(0))
	}
	if !s.quick {
		return s, nil
	}
	given := map[string]bool{}
	flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
	for name, value := range quickDefaults {
		if !given[name] {
			if err := flags.Set(name, value); err != nil {
				return nil, err
			}
		}
	}
	return s, nil
}

func into[T any](value *T, read func(string) (T, error)) func(string) error {
	return func(text string) (err error) {
		*value, err = read(text)
		return err
	}
}

func numbers(text string) (all []int, err error) {
	for part := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(part))
		if err != nil || n < 0 {
			return nil, fmt.Errorf("%q is no number of objects", part)
		}
		all = append(all, n)
	}
	slices.Sort(all)
	return all, nil
}

// fleets parses a list of fleets (stores x pods), such as 20x100000,200x1000. It sorts the fleets by their number of
// pods.
func fleets(text string) (all []seeded.Fleet, err error) {
	for part := range strings.SplitSeq(text, ",") {
		stores, pods, _ := strings.Cut(strings.TrimSpace(part), "x")
		n, err := strconv.Atoi(stores)
		m, podsErr := strconv.Atoi(pods)
		if err != nil || podsErr != nil || n < 1 || m < 1 {
			return nil, fmt.Errorf("%q is no number of stores, an x, and a number of pods", part)
		}
		all = append(all, seeded.Fleet{Stores: n, Pods: m})
	}
	slices.SortStableFunc(all, func(a, b seeded.Fleet) int { return a.Pods - b.Pods })
	return all, nil
}

// sizes parses a list of collection sizes (objects x resource), such as 1000xpods,1000000xwidgets.
func sizes(text string) (all []sizing.Size, err error) {
	for part := range strings.SplitSeq(text, ",") {
		objects, kind, _ := strings.Cut(strings.TrimSpace(part), "x")
		n, err := strconv.Atoi(objects)
		known := slices.ContainsFunc(load.Kinds, func(k load.Kind) bool { return k.Name == kind })
		if err != nil || n < 1 || !known {
			return nil, fmt.Errorf("%q is no number of objects, an x, and pods, widgets or configmaps", part)
		}
		all = append(all, sizing.Size{Kind: kind, Objects: n})
	}
	return all, nil
}

func quoted(args []string) []string {
	out := slices.Clone(args)
	for i, arg := range out {
		if strings.ContainsAny(arg, "|&;<>()$`\\\"' *?[") {
			out[i] = "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
		}
	}
	return out
}

// programs parses a list of programs to measure, such as 8x10,8x10+1@5,50x10@none: kinds x objects of each kind, then
// optionally + objects that change before a start, and @ requests a second (none: unlimited).
func programs(text string) (all []runner.Program, err error) {
	for part := range strings.SplitSeq(text, ",") {
		var p runner.Program
		program, limit, limited := strings.Cut(part, "@")
		size, changes, some := strings.Cut(program, "+")
		if _, err := fmt.Sscanf(size, "%dx%d", &p.Kinds, &p.Objects); err != nil || p.Kinds < 1 || p.Objects < 1 {
			return nil, fmt.Errorf("%q is no number of kinds x objects", part)
		}
		if some {
			if p.Changes, err = strconv.Atoi(changes); err != nil || p.Changes < 0 || p.Changes > p.Objects {
				return nil, fmt.Errorf("%q is no number of objects of %d that change", changes, p.Objects)
			}
		}
		switch {
		case limit == "none":
			p.QPS = -1
		case limited:
			qps, err := strconv.ParseFloat(limit, 32)
			if err != nil || !slices.Contains(runner.Limits, float32(qps)) {
				return nil, fmt.Errorf("%q is none of the limits: none, %v", limit, runner.Limits)
			}
			p.QPS = float32(qps)
		}
		all = append(all, p)
	}
	return all, nil
}
