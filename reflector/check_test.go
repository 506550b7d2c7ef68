package reflector

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
		want  finding
	}{
		{"the same", held, true, agrees},
		{"not found", entry.ObjectRef{}, false, changed},
		{"updated since", entry.ObjectRef{UID: "u1", ResourceVersion: "101"}, true, changed},
		{"replaced since", entry.ObjectRef{UID: "u2", ResourceVersion: "101"}, true, changed},
		{"an older state", entry.ObjectRef{UID: "u1", ResourceVersion: "80"}, true, contradicts},
		{"a state between ours and where the stream stands", entry.ObjectRef{UID: "u1", ResourceVersion: "95"}, true,
			contradicts},
		{"at where the stream stands", entry.ObjectRef{UID: "u1", ResourceVersion: "100"}, true, contradicts},
		{"another object, old", entry.ObjectRef{UID: "u2", ResourceVersion: "90"}, true, contradicts},
		{"not comparable", entry.ObjectRef{UID: "u2", ResourceVersion: "x"}, true, agrees},
	}
	for _, tt := range tests {
		if got := checkHeld(held, "100", tt.got, tt.found); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}
