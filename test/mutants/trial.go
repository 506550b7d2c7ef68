package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// trial compiles and runs the tests of one package, with a file of the repository changed or as they are.
type trial struct {
	w *workshop
	// dir is that of the package, below the root. tmp is the trial's own, where everything is that it makes.
	dir, tmp string
	changed  string // the file that go test reads by -overlay; "" if nothing is changed
}

func (w *workshop) newTrial(name, dir string) (*trial, error) {
	t := &trial{w: w, dir: dir, tmp: filepath.Join(w.tmp, name)}
	return t, os.Mkdir(t.tmp, 0o700)
}

// end removes everything.
func (t *trial) end() { _ = os.RemoveAll(t.tmp) }

// overlay has text compiled in the place of a file.
func (t *trial) overlay(file string, text []byte) error {
	with := filepath.Join(t.tmp, filepath.Base(file))
	data, err := json.Marshal(map[string]map[string]string{"Replace": {file: with}})
	if err != nil {
		return err
	}
	t.changed = filepath.Join(t.tmp, "overlay.json")
	return errors.Join(os.WriteFile(with, text, 0o600), os.WriteFile(t.changed, data, 0o600))
}

// binary is what the tests are compiled to, under the name that go test gives it.
func (t *trial) binary() string { return filepath.Join(t.tmp, filepath.Base(t.dir)+".test") }

// compile makes the binary.
func (t *trial) compile(ctx context.Context) (out string, err error) {
	mod, pkg := module(t.w.root, t.dir)
	args := []string{"-C", filepath.Join(t.w.root, mod), "test", "-c", "-vet=off", "-ldflags=-s -w", "-o", t.binary()}
	if t.changed != "" {
		args = append(args, "-overlay", t.changed)
	}
	cmd := exec.CommandContext(ctx, "go", append(args, pkg)...)
	if t.changed != "" {
		own := filepath.Join(t.tmp, "cache")
		cache := fmt.Sprintf("GOCACHEPROG='%s' %s '%s' '%s'", t.w.self, cacheCommand, t.w.ordinary, own)
		cmd.Env = append(os.Environ(), cache)
	}
	data, err := cmd.CombinedOutput()
	return string(data), err
}

// run runs those tests that match, in the directory of their package. The error says that one has failed.
func (t *trial) run(ctx context.Context, match string, timeout time.Duration, flags ...string) (out string, err error) {
	files := filepath.Join(t.tmp, "t") // what a test that is killed leaves goes with the rest
	if err := os.MkdirAll(files, 0o700); err != nil {
		return "", err
	}
	args := slices.Concat([]string{"-test.run", match, "-test.failfast", "-test.timeout", timeout.String()}, flags)
	cmd := exec.CommandContext(ctx, t.binary(), args...)
	cmd.Dir = filepath.Join(t.w.root, t.dir)
	// Nothing is to be left beside the tests, either. Children of a test that is killed may hold its output.
	cmd.Env = append(os.Environ(), "TMPDIR="+files, "RAPID_NOFAILFILE=1")
	cmd.WaitDelay = time.Second
	data, err := cmd.CombinedOutput()
	return string(data), err
}

// failed is the line that ends a top-level test which has failed.
var failed = regexp.MustCompile(`(?m)^--- FAIL: (\S+) .*$`)

// failuresOf are the tests that have failed, each with its first message.
func failuresOf(out string) (failures []string) {
	ends := failed.FindAllStringSubmatchIndex(out, -1)
	for i, at := range ends {
		end := len(out)
		if i+1 < len(ends) {
			end = ends[i+1][0]
		}
		failures = append(failures, out[at[2]:at[3]]+": "+firstMessage(out[at[1]:end]))
	}
	return failures
}

// firstMessage is the first line of a test's output that is one of its messages, or a panic.
func firstMessage(out string) string {
	for line := range strings.Lines(out) {
		line = strings.TrimSpace(line)
		if strings.Contains(line, "_test.go:") || strings.HasPrefix(line, "panic:") {
			return line[:min(len(line), 240)]
		}
	}
	return ""
}

// tail is the end of what a test has printed.
func tail(out string) string {
	lines := strings.Split(strings.TrimSpace(out), "\n")
	return strings.Join(lines[max(0, len(lines)-30):], "\n")
}
