package main

import (
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestTypecheck: a package that is right on this platform is found wrong on those where it is, its tests too.
func TestTypecheck(t *testing.T) {
	for platform, want := range map[string][]string{
		"linux/amd64": nil,
		"linux/arm":   {"wrong.go:7:26: cannot use 1 << 40"},
		"windows/386": {
			"wrong.go:7:26: cannot use 1 << 40",
			"wrong.go:10:29: undefined: home",
		},
		"darwin/arm64": {
			"wrong_darwin_test.go:3:22: cannot use home()",
		},
	} {
		t.Run(platform, func(t *testing.T) {
			t.Parallel()
			var out strings.Builder
			err := run(t.Context(), t.TempDir(), []string{platform, "testdata/wrong"}, &out)
			if (err == nil) != (want == nil) {
				t.Errorf("error %v", err)
			}
			lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
			if want == nil && out.Len() == 0 {
				return
			}
			if len(lines) != len(want) {
				t.Fatalf("%d lines, want %d:\n%s", len(lines), len(want), out.String())
			}
			for i, line := range lines {
				if !strings.HasPrefix(line, platform+": ") || !strings.Contains(line, want[i]) {
					t.Errorf("line %q, want %q", line, want[i])
				}
			}
		})
	}
}

// TestCanNotCheck: what keeps it from checking is an error, not a pass.
func TestCanNotCheck(t *testing.T) {
	for want, args := range map[string][]string{
		"usage":                  {"linux/arm"},
		"not of the form":        {"linux/arm,linux", "."},
		"it has no packages":     {"linux/arm", "testdata/empty"},
		"no such architecture":   {"linux/strong", "testdata/wrong"},
		"no such file":           {"linux/arm", "testdata/missing"},
		"build constraints excl": {"linux/arm", "testdata/excluded"},
	} {
		if err := run(t.Context(), t.TempDir(), args, t.Output()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v", args, err)
		}
	}
}
