package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

type outcome string

const (
	caught   outcome = "caught"
	survived outcome = "SURVIVED"
	died     outcome = "DIED"
	noGo     outcome = "DOES NOT COMPILE"
	rotted   outcome = "ROTTED"
)

type runner struct {
	root, tmp string
	// self is the path of this program, which go starts as its build cache (GOCACHEPROG). ordinary is the build cache
	// directory from which the program reads.
	self, ordinary string
	parallel       int
	timeout        time.Duration // timeout of one test
	// find is an optional regular expression: matching tests run in place of the named one, and failed ones are printed.
	find string
	out  io.Writer
}

// baseline checks that the tests named by the mutants exist, and that they pass on the code without faults.
func (r *runner) baseline(ctx context.Context, ms []mutant) error {
	tests := map[string][]string{} // names of tests by directory
	for _, m := range ms {
		if dir := m.testDir(); !slices.Contains(tests[dir], m.test) {
			tests[dir] = append(tests[dir], m.test)
		}
	}
	dirs := slices.Sorted(maps.Keys(tests))
	var bad []error
	for i, dir := range dirs {
		fmt.Fprintf(r.out, "[%d/%d] %s: %d tests must pass on the code as it is\n", i+1, len(dirs), dir, len(tests[dir]))
		bad = append(bad, r.passes(ctx, dir, tests[dir]))
	}
	return errors.Join(bad...)
}

func (r *runner) passes(ctx context.Context, dir string, tests []string) error {
	t, err := r.newTrial("baseline", dir)
	if err != nil {
		return err
	}
	defer t.end()
	if out, err := t.compile(ctx); err != nil {
		return fmt.Errorf("%s does not compile: %w\n%s", dir, err, out)
	}
	out, _ := t.run(ctx, "^("+strings.Join(tests, "|")+")$", time.Duration(len(tests))*r.timeout, "-test.v")
	var bad []error
	for _, test := range tests {
		if !strings.Contains(out, "--- PASS: "+test+" ") {
			bad = append(bad, fmt.Errorf("%s: %s did not pass on the code as it is:\n%s", dir, test, tail(out)))
		}
	}
	return errors.Join(bad...)
}

// run inserts each fault and runs the fault's test. It returns the number of faults that no test detected.
func (r *runner) run(ctx context.Context, ms []mutant) (left int) {
	var wg sync.WaitGroup
	var mu sync.Mutex
	next := make(chan int)
	done := 0
	for range r.parallel {
		wg.Go(func() {
			for i := range next {
				begun := time.Now()
				is, says := r.try(ctx, fmt.Sprint(i), ms[i])
				mu.Lock()
				done++
				if is != caught {
					left++
				}
				fmt.Fprintf(r.out, "[%d/%d] %-8s %s (%.0fs) %s\n", done, len(ms), is, ms[i].name, time.Since(begun).Seconds(), says)
				mu.Unlock()
			}
		})
	}
	for i := range ms {
		select {
		case next <- i:
		case <-ctx.Done():
		}
	}
	close(next)
	wg.Wait()
	return left
}

// try compiles the code with one fault and runs the fault's test. says is a message that explains the outcome.
func (r *runner) try(ctx context.Context, name string, m mutant) (is outcome, says string) {
	changed, err := m.apply(r.root)
	if err != nil {
		return rotted, err.Error()
	}
	t, err := r.newTrial(name, m.testDir())
	if err != nil {
		return died, err.Error()
	}
	defer t.end()
	if err := t.overlay(filepath.Join(r.root, m.file), changed); err != nil {
		return died, err.Error()
	}
	if out, err := t.compile(ctx); err != nil {
		return noGo, "\n" + out
	}
	match := "^" + m.test + "$"
	if r.find != "" {
		match = r.find
	}
	out, err := t.run(ctx, match, r.timeout)
	failures := failuresOf(out)
	switch {
	case err == nil && r.find == "":
		return survived, fmt.Sprintf("%s passes although this is broken: %s", m.test, m.breaks)
	case err == nil:
		return survived, m.breaks
	case len(failures) == 0:
		return died, "\n" + tail(out)
	case r.find != "":
		return caught, "by any of\n\t" + strings.Join(failures, "\n\t")
	case strings.Contains(out, "test timed out after"):
		return died, m.test + " hangs"
	}
	return caught, failures[0]
}

func executable() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find this program, which is the build cache of what it compiles: %w", err)
	}
	return self, nil
}
