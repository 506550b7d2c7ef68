package testresidency

import (
	"testing"

	"github.com/larder-dev/larder/store"
)

func TestFromEnv(t *testing.T) {
	for text, want := range map[string]store.Residency{
		"": store.All, "All": store.All, "None": store.None,
	} {
		t.Setenv(env, text)
		if got := Of(t); got != want {
			t.Errorf("%q: %s", text, got)
		}
	}
	for _, text := range []string{"all", " None", "Bounded(3000)", "1"} {
		t.Setenv(env, text)
		if got, err := FromEnv(); err == nil {
			t.Errorf("%q: %s", text, got)
		}
	}
}
