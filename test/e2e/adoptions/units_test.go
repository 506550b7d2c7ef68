package adoptions

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestUnitTests checks that each unit test of the programs has the same result with and without Larder. Some tests fail
// on a busy machine, so packages with differences run up to two more times. One success counts as success.
func TestUnitTests(t *testing.T) {
	onlyLong(t)
	for _, a := range adoptions {
		t.Run(a.name, func(t *testing.T) {
			stock, ours := a.copies(t)
			without, with := a.results(t, stock, a.tests), a.results(t, ours, a.tests)
			for range 2 {
				if packages := packagesOf(differences(without, with)); len(packages) > 0 {
					t.Logf("differs, and is run again: %s", packages)
					merge(without, a.results(t, stock, packages))
					merge(with, a.results(t, ours, packages))
				}
			}
			for _, name := range differences(without, with) {
				t.Errorf("%s: %q with Larder, %q without", name, with[name], without[name])
			}
			passed := 0
			for _, name := range slices.Sorted(maps.Keys(with)) {
				if with[name] == "pass" {
					passed++
				} else {
					t.Logf("with Larder: %s %s", with[name], name)
				}
			}
			if passed == 0 {
				t.Fatal("no test has passed")
			}
			t.Logf("%d of %d tests pass with Larder", passed, len(with))
		})
	}
}

func differences(a, b map[string]string) (names []string) {
	for _, name := range slices.Sorted(maps.Keys(a)) {
		if a[name] != b[name] {
			names = append(names, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(b)) {
		if a[name] == "" {
			names = append(names, name)
		}
	}
	return names
}

func packagesOf(tests []string) (packages []string) {
	for _, name := range tests {
		pkg, _, _ := strings.Cut(name, " ")
		packages = append(packages, pkg)
	}
	slices.Sort(packages)
	return slices.Compact(packages)
}

// A success in a repeated test run replaces a failure.
func merge(all, more map[string]string) {
	for name, result := range more {
		if all[name] != "pass" {
			all[name] = result
		}
	}
}

func (a adoption) results(t *testing.T, dir string, packages []string) map[string]string {
	t.Helper()
	args := append([]string{"test", "-json", "-vet=off", "-count=1", "-timeout=20m"}, packages...)
	cmd, stderr := goCommand(t.Context(), dir, args...)
	out, err := cmd.Output()
	if failed := (*exec.ExitError)(nil); err != nil && !errors.As(err, &failed) { // failed tests count as results
		t.Fatal(err)
	}
	results := map[string]string{}
	for in := json.NewDecoder(bytes.NewReader(out)); ; {
		var event struct{ Action, Package, Test, FailedBuild string }
		if err := in.Decode(&event); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("what go test printed: %v\n%s", err, stderr)
		}
		if event.FailedBuild != "" {
			t.Fatalf("the tests of %s do not compile:\n%s\n%s", event.Package, out, stderr)
		}
		if action := event.Action; event.Test != "" && (action == "pass" || action == "skip" || action == "fail") {
			results[event.Package+" "+event.Test] = action
		}
	}
	if len(results) == 0 {
		t.Fatalf("go test ran nothing: %v\n%s", err, stderr)
	}
	return results
}
