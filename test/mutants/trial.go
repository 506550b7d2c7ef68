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

// trial compiles and runs the tests of one package, with or without a fault in a file.
type trial struct {
	runner *runner
	// dir is the package's directory, relative to the root of the repository. tmp has all files of the trial.
	dir, tmp string
	changed  string // configuration for go test -overlay; "" without a change
}

func (r *runner) newTrial(name, dir string) (*trial, error) {
	t := &trial{runner: r, dir: dir, tmp: filepath.Join(r.tmp, name)}
	return t, os.Mkdir(t.tmp, 0o700)
}

func (t *trial) end() { _ = os.RemoveAll(t.tmp) }

func (t *trial) overlay(file string, text []byte) error {
	with := filepath.Join(t.tmp, filepath.Base(file))
	data, err := json.Marshal(map[string]map[string]string{"Replace": {file: with}})
	if err != nil {
		return err
	}
	t.changed = filepath.Join(t.tmp, "overlay.json")
	return errors.Join(os.WriteFile(with, text, 0o600), os.WriteFile(t.changed, data, 0o600))
}

// binary returns the path of the test binary, under the name that go test would choose.
func (t *trial) binary() string { return filepath.Join(t.tmp, filepath.Base(t.dir)+".test") }

func (t *trial) compile(ctx context.Context) (out string, err error) {
	mod, pkg := module(t.runner.root, t.dir)
	args := []string{"-C", filepath.Join(t.runner.root, mod), "test", "-c", "-vet=off", "-ldflags=-s -w", "-o", t.binary()}
	if t.changed != "" {
		args = append(args, "-overlay", t.changed)
	}
	cmd := exec.CommandContext(ctx, "go", append(args, pkg)...)
	if t.changed != "" {
		own := filepath.Join(t.tmp, "cache")
		cache := fmt.Sprintf("GOCACHEPROG='%s' %s '%s' '%s'", t.runner.self, cacheCommand, t.runner.ordinary, own)
		cmd.Env = append(os.Environ(), cache)
	}
	data, err := cmd.CombinedOutput()
	return string(data), err
}

// run runs the matching tests in their package's directory. It returns their output, and an error if a test failed.
func (t *trial) run(ctx context.Context, match string, timeout time.Duration, flags ...string) (out string, err error) {
	files := filepath.Join(t.tmp, "t") // for files that a killed test leaves behind
	if err := os.MkdirAll(files, 0o700); err != nil {
		return "", err
	}
	args := slices.Concat([]string{"-test.run", match, "-test.failfast", "-test.timeout", timeout.String()}, flags)
	cmd := exec.CommandContext(ctx, t.binary(), args...)
	cmd.Dir = filepath.Join(t.runner.root, t.dir)
	// Rapid must not write a failure file beside the tests. WaitDelay is for children of a killed test that hold the
	// test's output.
	cmd.Env = append(os.Environ(), "TMPDIR="+files, "RAPID_NOFAILFILE=1")
	cmd.WaitDelay = time.Second
	data, err := cmd.CombinedOutput()
	return string(data), err
}

// failed matches the last line of a failed top-level test.
var failed = regexp.MustCompile(`(?m)^--- FAIL: (\S+) .*$`)

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

func firstMessage(out string) string {
	for line := range strings.Lines(out) {
		line = strings.TrimSpace(line)
		if strings.Contains(line, "_test.go:") || strings.HasPrefix(line, "panic:") {
			return line[:min(len(line), 240)]
		}
	}
	return ""
}

func tail(out string) string {
	lines := strings.Split(strings.TrimSpace(out), "\n")
	return strings.Join(lines[max(0, len(lines)-30):], "\n")
}
