package adoptions

import (
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestUnitTests: the programs' own unit tests pass with Larder as they do without it, test by test.
func TestUnitTests(t *testing.T) {
	onlyLong(t)
	for _, a := range adoptions {
		t.Run(a.name, func(t *testing.T) {
			stock, ours := a.copies(t)
			without, with := a.results(t, stock), a.results(t, ours)
			passed := 0
			for _, name := range slices.Sorted(maps.Keys(without)) {
				if without[name] == "pass" {
					passed++
				} else {
					t.Logf("without Larder: %s %s", without[name], name)
				}
				if with[name] != without[name] {
					t.Errorf("%s: %q with Larder, %q without", name, with[name], without[name])
				}
			}
			for name := range with {
				if without[name] == "" {
					t.Errorf("%s: only with Larder", name)
				}
			}
			if passed == 0 {
				t.Fatal("no test has passed")
			}
			t.Logf("%d of %d tests pass, with Larder and without", passed, len(without))
		})
	}
}

// results runs the unit tests of a copy, and returns the last word on each test, and on each package that fails.
func (a adoption) results(t *testing.T, dir string) map[string]string {
	t.Helper()
	args := append([]string{"test", "-json", "-vet=off", "-count=1", "-timeout=20m"}, a.tests...)
	cmd, stderr := goCommand(t.Context(), dir, args...)
	out, err := cmd.Output()
	if failed := (*exec.ExitError)(nil); err != nil && !errors.As(err, &failed) { // tests that fail are compared, too
		t.Fatal(err)
	}
	results, output := map[string]string{}, map[string]string{}
	for in := json.NewDecoder(strings.NewReader(string(out))); ; {
		var event struct{ Action, Package, Test, Output string }
		if err := in.Decode(&event); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("what go test printed: %v\n%s", err, stderr)
		}
		name := strings.TrimSpace(event.Package + " " + event.Test)
		switch event.Action {
		case "output":
			output[name] += event.Output
		case "pass", "skip":
			if event.Test != "" {
				results[name] = event.Action
			}
		case "fail": // also a package that does not compile
			results[name] = event.Action
			t.Logf("%s fails:\n%s", name, output[name])
		}
	}
	if len(results) == 0 {
		t.Fatalf("go test said nothing: %v\n%s", err, stderr)
	}
	return results
}
