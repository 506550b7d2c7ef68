package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// measured is what ran of the library while one event went to its handler: of each file, each function and each mutex
// that was taken at least once, by any goroutine.
type measured struct{ functions, files, locks []string }

// measure sends an event through an instrumented informer (test/size/event).
func (c *code) measure() (*measured, error) {
	dir, err := os.MkdirTemp("", "larder-size-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	event := modulePath + "/test/size/event"
	program, counters := filepath.Join(dir, "event"), filepath.Join(dir, "counters")
	profile := filepath.Join(dir, "profile")
	if err := os.Mkdir(counters, 0o755); err != nil {
		return nil, err
	}
	packages := strings.Join(append([]string{event}, c.paths...), ",")
	for _, command := range [][]string{
		{"go", "build", "-cover", "-covermode=atomic", "-coverpkg=" + packages, "-o", program, event},
		{program, counters},
		{"go", "tool", "covdata", "textfmt", "-i=" + counters, "-o=" + profile},
	} {
		cmd := exec.Command(command[0], command[1:]...)
		cmd.Dir, cmd.Env = c.root, append(os.Environ(), "GOCOVERDIR="+dir)
		if out, err := cmd.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("%s: %w: %s", strings.Join(command[:2], " "), err, out)
		}
	}
	text, err := os.ReadFile(profile)
	if err != nil {
		return nil, err
	}
	return c.ran(text)
}

// ran reads a profile of coverage: lines like path/file.go:12.3,14.5 1 1.
func (c *code) ran(profile []byte) (*measured, error) {
	m := &measured{}
	for lines := bufio.NewScanner(bytes.NewReader(profile)); lines.Scan(); {
		at, block, found := strings.Cut(lines.Text(), ".go:")
		if !found || strings.HasSuffix(block, " 0") {
			continue
		}
		var first, last, column, statements, count int
		_, err := fmt.Sscanf(block, "%d.%d,%d.%d %d %d", &first, &column, &last, &column, &statements, &count)
		if err != nil {
			return nil, fmt.Errorf("the profile's line %q: %w", lines.Text(), err)
		}
		file := strings.TrimPrefix(at, modulePath+"/") + ".go"
		name := c.at(file, first)
		if name == "" {
			continue
		}
		m.functions, m.files = append(m.functions, name), append(m.files, file)
		for line := first; line <= last; line++ {
			if lock := c.funcs[name].lockedAt[line]; lock != "" {
				m.locks = append(m.locks, lock)
			}
		}
	}
	for _, list := range []*[]string{&m.functions, &m.files, &m.locks} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	return m, nil
}

// locksBeside are the mutexes that were taken, and are not in the list of a walk.
func (m *measured) locksBeside(w *Walk) []string {
	return slices.DeleteFunc(slices.Clone(m.locks), func(lock string) bool { return slices.Contains(w.locks(), lock) })
}
