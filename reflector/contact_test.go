package reflector_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/larder-dev/larder/reflector"
)

// TestAgeOfTheState checks that Status.LastContact is the last time at which the stored objects were known to be the
// server's state. Otherwise an answered probe would make hours-old objects look fresh. Issue 37.
func TestAgeOfTheState(t *testing.T) {
	away := func(context.Context, request) (watch.Interface, error) {
		return nil, apierrors.NewServiceUnavailable("away")
	}
	for name, tt := range map[string]struct {
		before func(g *rig)
		o      reflector.Options
		// after runs after the restart, when the server refuses the watch.
		after func(g *rig)
		fresh bool
	}{
		"the server has moved on":       {before: func(g *rig) { g.s.put("a/x", "2") }},
		"another resource has moved on": {before: func(g *rig) { g.s.other(1) }},
		"nothing has changed":           {fresh: true},
		"a page of a list that cannot end": {
			before: func(g *rig) {
				g.fill(30)
				g.s.compact()
				g.s.onWatch = nil
				g.s.onList = func(r request) (runtime.Object, error) {
					if r.Continue != "" {
						return nil, apierrors.NewServiceUnavailable("away")
					}
					return nil, nil
				}
			},
			o: reflector.Options{PageSize: 10},
		},
		"an event": {
			before: func(g *rig) { g.s.put("a/x", "2"); g.s.noBookmarks = true },
			after:  func(g *rig) { g.s.onWatch = nil; g.sleep(time.Minute) },
			fresh:  true,
		},
		"a bookmark": {
			before: func(g *rig) { g.s.other(1) },
			after:  func(g *rig) { g.s.onWatch = nil; g.sleep(time.Minute) },
			fresh:  true,
		},
		"silence of a server without bookmarks": {
			before: func(g *rig) { g.s.other(1); g.s.noBookmarks = true },
			after:  func(g *rig) { g.s.onWatch = nil; g.sleep(time.Minute) },
			fresh:  true,
		},
		"a list": {
			before: func(g *rig) { g.s.put("a/x", "2"); g.s.compact() },
			after:  func(g *rig) { g.s.onWatch = nil; g.sleep(time.Minute) },
			fresh:  true,
		},
		"the same objects at a higher resourceVersion": {
			before: func(g *rig) { g.s.other(1); g.s.onWatch = nil; g.s.noBookmarks = true },
			o: reflector.Options{Compare: func(context.Context) (reflector.Comparison, error) {
				return reflector.Comparison{ResourceVersion: "102"}, nil
			}},
			fresh: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(g *rig) {
				g.s.put("a/x", "1")
				g.start(reflector.Options{})
				contacts := 0
				tt.o.OnContact = func(time.Time) { contacts++ }
				g.restart(func() {
					g.s.onWatch = away
					if tt.before != nil {
						tt.before(g)
					}
				}, tt.o)
				if tt.after != nil {
					tt.after(g)
				}
				synctest.Wait()
				at := g.r.Status().LastContact
				if fresh := !at.IsZero(); fresh != tt.fresh || (contacts > 0) != tt.fresh {
					t.Errorf("last contact %v, %d contacts; the state is known to be the server's: %v", at, contacts, tt.fresh)
				}
				g.stop()
			})
		})
	}
}

func TestAgeWithAnOldBookmark(t *testing.T) {
	bubble(t, func(g *rig) {
		g.s.noBookmarks = true
		g.s.put("a/x", "1")
		g.start(reflector.Options{})
		before := g.r.Status().LastContact
		g.sleep(time.Second)
		g.s.mu.Lock()
		g.s.watches[0].pushLocked(watch.Event{Type: watch.Bookmark,
			Object: &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "50"}}})
		g.s.mu.Unlock()
		synctest.Wait()
		if at := g.r.Status().LastContact; !at.Equal(before) || at.IsZero() {
			t.Errorf("last contact %v, before the bookmark %v", at, before)
		}
		g.stop()
	})
}
