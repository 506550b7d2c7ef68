package informer_test

import (
	"maps"
	"slices"
	"strings"
)

// failer is *testing.T, or what stands in for it.
type failer interface {
	Helper()
	Errorf(format string, args ...any)
}

// replay applies recorded lines to what a handler knows, key to description, and complains about calls that do not
// follow from what was known: an add of a known object, an update from another state, a delete of an unknown one.
func replay(t failer, known map[string]string, lines []string) {
	t.Helper()
	for _, line := range lines {
		f := strings.Fields(line)
		switch f[0] {
		case "add":
			key := keyIn(f[1])
			if known[key] != "" {
				t.Errorf("%q, but the handler has %q", line, known[key])
			}
			known[key] = f[1]
		case "update":
			key := keyIn(f[1])
			if known[key] != f[1] {
				t.Errorf("%q, but the handler has %q", line, known[key])
			}
			known[key] = f[3]
		case "delete", "gone":
			key := keyIn(f[1])
			if known[key] == "" {
				t.Errorf("%q, but the handler has no such object", line)
			}
			delete(known, key)
		}
	}
}

// keyIn returns the key of a description.
func keyIn(s string) string {
	key, _, _ := strings.Cut(s, "@")
	return key
}

func sortedValues(m map[string]string) []string { return slices.Sorted(maps.Values(m)) }
