package scenario

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/larder-dev/larder/bench/internal/load"
	"github.com/larder-dev/larder/bench/internal/subject"
)

// TestRawFormats checks that the reference for typed reads and the one for dynamic reads use different encodings, and
// that neither can decode the other's.
func TestRawFormats(t *testing.T) {
	pod := load.WithManagedFields(load.KindOf("pods").New(7, 0)).(*corev1.Pod)
	typed, dynamic := formatOf(Case{}), formatOf(Case{Subject: subject.Spec{Dynamic: true}})
	for name, format := range map[string]rawFormat{"typed": typed, "dynamic": dynamic} {
		value, err := format.encode(pod)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := format.decode(value); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		other := typed
		if name == "typed" {
			other = dynamic
		}
		if err := other.decode(value); err == nil {
			t.Errorf("the other reader has read what is %s", name)
		}
	}
}
