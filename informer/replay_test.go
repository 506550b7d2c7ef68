package informer_test

import (
	"maps"
	"slices"
	"strings"
)

type failer interface {
	Helper()
	Errorf(format string, args ...any)
}

// replay applies a handler's calls to known, the objects that the handler knows (description by key). It reports an add
// of a known object, an update from a state that the handler does not know, and a delete of an unknown object.
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

// keyIn returns the object's key from a description such as a/1@101=x.
func keyIn(s string) string {
	key, _, _ := strings.Cut(s, "@")
	return key
}

func sortedValues(m map[string]string) []string { return slices.Sorted(maps.Values(m)) }
