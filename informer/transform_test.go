package informer_test

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/larder-dev/larder/informer"
)

// TestTransformNeedsVersion checks that a run fails even if the caller ignores the error of SetTransform, as factories
// do. Nothing is stored untransformed. Issue 37.
func TestTransformNeedsVersion(t *testing.T) {
	mark := func(obj any) (any, error) {
		p := obj.(*corev1.Pod).DeepCopy()
		p.Labels["value"] = "marked"
		return p, nil
	}
	for name, tt := range map[string]struct {
		version  string
		inMemory bool
		refused  bool
	}{
		"no version":  {refused: true},
		"a version":   {version: "1"},
		"unversioned": {version: informer.Unversioned},
		"in memory":   {inMemory: true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t)
				r.o.TransformVersion, r.o.InMemory = tt.version, tt.inMemory
				r.srv.write("a/1", "x")
				i := r.open()
				err := i.SetTransform(mark)
				if refused := errors.Is(err, informer.ErrTransformVersion); refused != tt.refused || !refused && err != nil {
					t.Errorf("SetTransform: %v", err)
				}
				if tt.refused && !strings.Contains(err.Error(), "informer.Unversioned") {
					t.Errorf("SetTransform: %v", err)
				}
				r.run()
				lists, _ := r.srv.requests()
				s := i.Status()
				if tt.refused {
					if !errors.Is(s.Err, informer.ErrTransformVersion) || !i.IsStopped() || s.Synced || lists > 0 || s.Objects > 0 {
						t.Errorf("the run: %d lists, %+v", lists, s)
					}
				} else {
					equal(t, "stored", r.stored(), []string{"a/1@101=marked"})
				}
				if unguarded := strings.Contains(strings.Join(s.Unguarded, " "), whatTransform); unguarded !=
					(tt.version == informer.Unversioned) {
					t.Errorf("unguarded: %q", s.Unguarded)
				}
				r.close()
			})
		})
	}
}
