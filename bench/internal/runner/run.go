package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"time"

	"github.com/larder-dev/larder/bench/internal/cluster"
	"github.com/larder-dev/larder/bench/internal/load"
	"github.com/larder-dev/larder/bench/internal/report"
	"github.com/larder-dev/larder/bench/internal/scenario"
)

// Options select the benchmark cases to run.
type Options struct {
	// Pods has the numbers of pods to measure. ConfigMaps and Widgets are the numbers of these objects, 0 for none.
	Pods                []int
	ConfigMaps, Widgets int
	Runs                int
	// Effort scales durations and repetitions: 1 is a full run, and smaller values are quicker.
	Effort float64
	// Only matches the names of the scenarios to run. Default: all.
	Only         *regexp.Regexp
	EmbeddedOnly bool
	// Profile is an absolute directory for a profile of each case. Default: no profiles.
	Profile string
	// Dir is a directory for temporary files. Required.
	Dir      string
	Progress io.Writer
}

// Outcome is the result of a benchmark run.
type Outcome struct {
	Samples []report.Sample
	// Server is the version of the last kube-apiserver that was used. Without a kube-apiserver, it describes the embedded
	// server.
	Server string
}

// Run runs every case. A failed case is part of the error; the other cases still run.
func Run(ctx context.Context, o Options) (Outcome, error) {
	r := &run{Options: o, started: time.Now()}
	groups := o.groups()
	for _, g := range groups {
		for _, s := range g.scenarios {
			r.cases += o.Runs * len(s.Cases(g.kind))
		}
	}
	fmt.Fprintf(o.Progress, "%d cases; the programs of the real server are built first where they are missing.\n", r.cases)
	var errs []error
	for _, g := range groups {
		if err := r.group(ctx, g); err != nil {
			errs = append(errs, fmt.Errorf("%d %s: %w", g.n, g.kind.Name, err))
		}
		if ctx.Err() != nil {
			break
		}
	}
	fmt.Fprintf(o.Progress, "Took %s.\n", time.Since(r.started).Round(time.Second))
	return r.outcome, errors.Join(errs...)
}

type group struct {
	real      bool
	kind      load.Kind
	n         int
	scenarios []scenario.Scenario
}

// groups returns the groups of scenarios in the order of the run. Each group starts a new server.
func (o Options) groups() []group {
	var all []group
	add := func(real bool, kind string, n int) {
		g := group{real: real && !o.EmbeddedOnly, kind: load.KindOf(kind), n: n}
		for _, s := range scenario.All() {
			fits := s.Embedded != real || kind == "widgets" // kube-apiserver is too slow for so many widgets
			if slices.Contains(s.Kinds, kind) && fits && (o.Only == nil || o.Only.MatchString(s.Name)) {
				g.scenarios = append(g.scenarios, s)
			}
		}
		if n > 0 && len(g.scenarios) > 0 {
			all = append(all, g)
		}
	}
	for _, n := range o.Pods {
		add(true, "pods", n)
	}
	add(true, "configmaps", o.ConfigMaps)
	for _, n := range o.Pods {
		add(false, "pods", n)
	}
	add(false, "widgets", o.Widgets)
	return all
}

type run struct {
	Options
	started     time.Time
	cases, done int
	outcome     Outcome
}

func (r *run) group(ctx context.Context, g group) (err error) {
	dir, err := os.MkdirTemp(r.Dir, "group-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	h := &host{dir: dir, kind: g.kind, stored: map[string]bool{}}
	if g.real {
		h.cluster, err = cluster.StartReal(ctx, dir)
	} else {
		h.cluster, err = cluster.StartEmbedded(g.n)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.cluster.Close()) }()
	if r.outcome.Server == "" || g.real {
		r.outcome.Server = h.cluster.Version()
	}
	r.say("loading %d %s into the %s", g.n, g.kind.Name, h.cluster.Version())
	if err := h.cluster.Load(ctx, g.kind, g.n); err != nil {
		return fmt.Errorf("loading: %w", err)
	}
	var errs []error
	for _, s := range g.scenarios {
		errs = append(errs, r.scenario(ctx, h, g, s))
	}
	return errors.Join(errs...)
}

// scenario runs the subjects in turn, so that load on the machine affects all of them.
func (r *run) scenario(ctx context.Context, h *host, g group, s scenario.Scenario) error {
	var errs []error
	for n := range r.Runs {
		for _, spec := range s.Cases(g.kind) {
			if ctx.Err() != nil {
				return errors.Join(append(errs, ctx.Err())...)
			}
			r.done++
			c := scenario.Case{
				Scenario: s.Name, Kind: g.kind.Name, N: g.n, Subject: spec, Effort: r.Effort, Profile: r.Profile,
			}
			result, err := h.run(ctx, s, c)
			if err != nil {
				err = fmt.Errorf("%s, %s, run %d: %w", s.Name, spec, n+1, err)
				r.say("failed: %v", err)
				errs = append(errs, err)
				continue
			}
			r.say("%s, %d %s, %s, run %d: %s", s.Name, g.n, g.kind.Name, spec, n+1, report.Line(s, result))
			r.outcome.Samples = append(r.outcome.Samples, report.Sample{
				Scenario: s.Name, Kind: g.kind.Name, N: g.n, Subject: spec, Result: result,
			})
		}
	}
	return errors.Join(errs...)
}

func (r *run) say(format string, args ...any) {
	took := time.Since(r.started).Round(time.Second)
	fmt.Fprintf(r.Progress, "%6s %3d/%d  %s\n", took, r.done, r.cases, fmt.Sprintf(format, args...))
}
