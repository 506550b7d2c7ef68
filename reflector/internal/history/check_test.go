package history

import (
	"testing"

	"github.com/larder-dev/larder/entry"
)

func TestCheck(t *testing.T) {
	held := entry.ObjectRef{Key: "a/x", UID: "u1", ResourceVersion: "90"}
	tests := []struct {
		name  string
		got   entry.ObjectRef
		found bool
		want  Finding
	}{
		{"the same", held, true, Agrees},
		{"not found", entry.ObjectRef{}, false, Changed},
		{"updated since", entry.ObjectRef{UID: "u1", ResourceVersion: "101"}, true, Changed},
		{"replaced since", entry.ObjectRef{UID: "u2", ResourceVersion: "101"}, true, Changed},
		{"an older state", entry.ObjectRef{UID: "u1", ResourceVersion: "80"}, true, Contradicts},
		{"a state between ours and where the stream stands", entry.ObjectRef{UID: "u1", ResourceVersion: "95"}, true,
			Contradicts},
		{"at where the stream stands", entry.ObjectRef{UID: "u1", ResourceVersion: "100"}, true, Contradicts},
		{"another object, old", entry.ObjectRef{UID: "u2", ResourceVersion: "90"}, true, Contradicts},
		{"not comparable", entry.ObjectRef{UID: "u2", ResourceVersion: "x"}, true, Agrees},
	}
	for _, tt := range tests {
		if got := Check(held, "100", tt.got, tt.found); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}
