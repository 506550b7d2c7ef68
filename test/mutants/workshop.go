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

// outcome is what became of a mutant.
type outcome string

const (
	caught   outcome = "caught"
	survived outcome = "SURVIVED"
	died     outcome = "DIED"
	noGo     outcome = "DOES NOT COMPILE"
	rotted   outcome = "ROTTED"
)

// workshop tries mutants.
type workshop struct {
	root, tmp string
	// self is this program, as the build cache of what it compiles; ordinary is the cache that it reads. See buildCache.
	self, ordinary string
	parallel       int
	timeout        time.Duration // of one test
	// find, if set, is a regular expression: these tests are run, and those that fail are told.
	find string
	out  io.Writer
}

// baseline runs the tests that the mutants name on the code as it is: each must be there and pass.
func (w *workshop) baseline(ctx context.Context, ms []mutant) error {
	tests := map[string][]string{} // by directory
	for _, m := range ms {
		if dir := m.testDir(); !slices.Contains(tests[dir], m.test) {
			tests[dir] = append(tests[dir], m.test)
		}
	}
	dirs := slices.Sorted(maps.Keys(tests))
	var bad []error
	for i, dir := range dirs {
		fmt.Fprintf(w.out, "[%d/%d] %s: %d tests must pass on the code as it is\n", i+1, len(dirs), dir, len(tests[dir]))
		bad = append(bad, w.passes(ctx, dir, tests[dir]))
	}
	return errors.Join(bad...)
}

// passes returns an error unless all of the tests in dir pass.
func (w *workshop) passes(ctx context.Context, dir string, tests []string) error {
	t, err := w.newTrial("baseline", dir)
	if err != nil {
		return err
	}
	defer t.end()
	if out, err := t.compile(ctx); err != nil {
		return fmt.Errorf("%s does not compile: %w\n%s", dir, err, out)
	}
	out, _ := t.run(ctx, "^("+strings.Join(tests, "|")+")$", time.Duration(len(tests))*w.timeout, "-test.v")
	var bad []error
	for _, test := range tests {
		if !strings.Contains(out, "--- PASS: "+test+" ") {
			bad = append(bad, fmt.Errorf("%s: %s did not pass on the code as it is:\n%s", dir, test, tail(out)))
		}
	}
	return errors.Join(bad...)
}

// plant tries the mutants, and returns how many were not caught.
func (w *workshop) plant(ctx context.Context, ms []mutant) (left int) {
	var wg sync.WaitGroup
	var mu sync.Mutex
	next := make(chan int)
	done := 0
	for range w.parallel {
		wg.Go(func() {
			for i := range next {
				begun := time.Now()
				is, says := w.try(ctx, fmt.Sprint(i), ms[i])
				mu.Lock()
				done++
				if is != caught {
					left++
				}
				fmt.Fprintf(w.out, "[%d/%d] %-8s %s (%.0fs) %s\n", done, len(ms), is, ms[i].name, time.Since(begun).Seconds(), says)
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

// try compiles a mutant and runs its test. says is what is worth knowing about the outcome.
func (w *workshop) try(ctx context.Context, name string, m mutant) (is outcome, says string) {
	changed, err := m.apply(w.root)
	if err != nil {
		return rotted, err.Error()
	}
	t, err := w.newTrial(name, m.testDir())
	if err != nil {
		return died, err.Error()
	}
	defer t.end()
	if err := t.overlay(filepath.Join(w.root, m.file), changed); err != nil {
		return died, err.Error()
	}
	if out, err := t.compile(ctx); err != nil {
		return noGo, "\n" + out
	}
	match := "^" + m.test + "$"
	if w.find != "" {
		match = w.find
	}
	out, err := t.run(ctx, match, w.timeout)
	failures := failuresOf(out)
	switch {
	case err == nil && w.find == "":
		return survived, fmt.Sprintf("%s passes although this is broken: %s", m.test, m.breaks)
	case err == nil:
		return survived, m.breaks
	case len(failures) == 0:
		return died, "\n" + tail(out)
	case w.find != "":
		return caught, "by any of\n\t" + strings.Join(failures, "\n\t")
	case strings.Contains(out, "test timed out after"):
		return died, m.test + " hangs"
	}
	return caught, failures[0]
}

// executable is the name of this program's file.
func executable() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find this program, which is the build cache of what it compiles: %w", err)
	}
	return self, nil
}
