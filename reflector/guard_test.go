package reflector_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/larder-dev/larder/reflector"
)

func (g *rig) wantRelist(reason reflector.Reason) {
	g.t.Helper()
	st := g.r.Status()
	if len(st.Relists) != 1 || st.Relists[reason] != 1 || st.LastRelist != reason {
		g.t.Errorf("relists %v (last %s), want one for %s", st.Relists, st.LastRelist, reason)
	}
	g.converged()
}

func (g *rig) wantNoList() {
	g.t.Helper()
	if st := g.r.Status(); st.Lists != 0 {
		g.t.Errorf("%d lists (%v)", st.Lists, st.Relists)
	}
	g.converged()
}

func TestAheadOfServer(t *testing.T) {
	bubble(t, func(g *rig) {
		g.s.put("a/x", "1")
		b := g.s.backup()
		g.s.put("a/y", "1")
		g.start(reflector.Options{})
		g.restart(func() { g.s.restore(b) }, reflector.Options{})
		g.wantRelist(reflector.ReasonAhead)
		g.stop()
	})
}

func TestRewoundServerHasOvertakenUs(t *testing.T) {
	// lost are the changes that the restored server no longer has; after are the server's changes since the restore.
	tests := []struct {
		name         string
		lost, after  func(s *server)
		noticed      bool
		longHistory  bool
		wantNoChange bool
	}{
		{"created in the lost part", func(s *server) { s.put("a/y", "1") }, func(s *server) { s.other(10) }, true, true,
			false},
		{"updated in the lost part", func(s *server) { s.put("a/x", "2") }, func(s *server) { s.other(10) }, true, true,
			false},
		{"created in both", func(s *server) { s.put("a/y", "1") }, func(s *server) { s.put("a/y", "2"); s.other(10) }, true,
			true, false},
		{"updated in both, past us", func(s *server) { s.put("a/x", "2"); s.other(2) },
			func(s *server) { s.other(10); s.put("a/x", "3") }, false, true, false},
		{"created, then everything past us", func(s *server) { s.put("a/y", "1"); s.put("a/z", "1") },
			func(s *server) { s.other(10); s.put("a/y", "2") }, true, true, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(g *rig) {
				g.s.put("a/x", "1")
				b := g.s.backup()
				tt.lost(g.s)
				g.start(reflector.Options{})
				g.restart(func() { g.s.restore(b); tt.after(g.s) }, reflector.Options{})
				g.sleep(10 * time.Second)
				if tt.noticed {
					g.wantRelist(reflector.ReasonRewound)
				} else {
					g.wantNoList()
				}
				g.stop()
			})
		})
	}
}

func TestRewoundWhileRunning(t *testing.T) {
	bubble(t, func(g *rig) {
		g.s.put("a/x", "1")
		b := g.s.backup()
		g.start(reflector.Options{})
		g.s.put("a/y", "1") // arrives as an event, so the look-ups must include the object
		g.sleep(time.Second)
		g.s.restore(b)
		g.s.other(50)
		g.sleep(time.Minute)
		g.wantRelist(reflector.ReasonRewound)
		g.stop()
	})
}

func TestRewoundToTheSameVersion(t *testing.T) {
	bubble(t, func(g *rig) {
		g.s.put("a/x", "1")
		b := g.s.backup()
		g.s.put("a/y", "1")
		g.s.remove("a/x")
		g.start(reflector.Options{})
		g.restart(func() { g.s.restore(b); g.s.other(2) }, reflector.Options{})
		g.wantRelist(reflector.ReasonRewound)
		g.stop()
	})
}

func TestChangesSinceAreNoRewind(t *testing.T) {
	changes := map[string]func(s *server){
		"updated":               func(s *server) { s.put("a/x", "2") },
		"deleted":               func(s *server) { s.remove("a/x") },
		"deleted and recreated": func(s *server) { s.remove("a/x"); s.put("a/x", "2") },
		"recreated and deleted": func(s *server) { s.remove("a/x"); s.put("a/x", "2"); s.remove("a/x") },
		"all of it, busy": func(s *server) {
			for i := range 50 {
				s.put(fmt.Sprintf("a/%d", i), "1")
				s.remove(fmt.Sprintf("a/%d", i-1))
			}
			s.remove("a/x")
			s.other(100)
		},
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(g *rig) {
				g.s.put("a/x", "1")
				g.s.put("a/y", "1")
				g.start(reflector.Options{})
				g.restart(func() { change(g.s) }, reflector.Options{})
				g.sleep(5 * time.Second)
				g.wantNoList()
				if g.m.syncs() != 1 {
					t.Errorf("%d syncs", g.m.syncs())
				}
				g.stop()
			})
		})
	}
}

// TestGuardRaces checks that a change between any two requests of a connect does not look like a restored server.
func TestGuardRaces(t *testing.T) {
	changes := map[string]func(s *server){
		"update":   func(s *server) { s.put("a/x", "2") },
		"delete":   func(s *server) { s.remove("a/x") },
		"recreate": func(s *server) { s.remove("a/x"); s.put("a/x", "3") },
	}
	for name, change := range changes {
		for gap := range 4 {
			t.Run(fmt.Sprintf("%s in gap %d", name, gap), func(t *testing.T) {
				bubble(t, func(g *rig) {
					g.s.put("a/x", "1")
					g.s.put("a/y", "1")
					g.start(reflector.Options{})
					g.restart(func() {
						if gap == 0 {
							change(g.s)
						}
						n := 0
						g.s.afterList = func(request) {
							if n++; n == gap {
								change(g.s)
							}
						}
					}, reflector.Options{})
					g.sleep(10 * time.Second)
					g.wantNoList()
					g.stop()
				})
			})
		}
	}
}

// TestNoFalseRewindUnderLoad checks that writes and lost connections never look like a restored server.
func TestNoFalseRewindUnderLoad(t *testing.T) {
	bubble(t, func(g *rig) {
		for i := range 20 {
			g.s.put(fmt.Sprintf("a/%d", i), "1")
		}
		i := 0
		g.s.afterList = func(request) {
			i++
			g.s.put(fmt.Sprintf("a/%d", i%20),
				"2")
			g.s.remove(fmt.Sprintf("a/%d", (i*7)%20))
		}
		g.start(reflector.Options{})
		g.m.forget()
		lists := g.r.Status().Lists
		for n := range 600 {
			g.s.put(fmt.Sprintf("a/%d", n%20), "3")
			g.s.remove(fmt.Sprintf("a/%d", (n*3)%20))
			if n%3 == 0 {
				g.s.cut(apierrors.NewInternalError(errors.New("boom")))
			}
			g.sleep(500 * time.Millisecond)
		}
		g.sleep(time.Minute)
		g.converged()
		st := g.r.Status()
		if st.Lists != lists || len(st.Relists) != 0 {
			t.Errorf("relists %v", st.Relists)
		}
		if st.Lookups < 50 {
			t.Errorf("only %d look-ups: the test tests nothing", st.Lookups)
		}
		g.stop()
	})
}

// TestAwaitedObjectsSurviveALostConnection checks that the next connect looks up the objects whose event was awaited,
// although events of the new history have displaced them from the newest objects.
func TestAwaitedObjectsSurviveALostConnection(t *testing.T) {
	bubble(t, func(g *rig) {
		g.s.put("a/x", "1")
		b := g.s.backup()
		g.s.put("a/lost", "1")
		g.start(reflector.Options{})
		g.restart(func() {
			g.s.restore(b)
			g.s.other(10)
			for i := range 3 * newestSize {
				g.s.put(fmt.Sprintf("a/%d", i), "1")
			}
			n := 0
			g.s.onWatch = func(ctx context.Context, r request) (watch.Interface, error) {
				if n++; n > 1 {
					return nil, nil
				}
				w, err := g.s.watch(ctx, r) // the watch sends all events but the last, then an error
				ow := w.(*openWatch)
				g.s.mu.Lock()
				ow.queue[len(ow.queue)-1] = &watch.Event{Type: watch.Error, Object: &metav1.Status{Code: 500}}
				g.s.mu.Unlock()
				return w, err
			}
		}, reflector.Options{})
		if st := g.r.Status(); len(st.Relists) != 0 || st.State != reflector.Backoff {
			t.Fatalf("the test tests nothing: %+v", st)
		}
		g.sleep(10 * time.Second)
		g.wantRelist(reflector.ReasonRewound)
		g.stop()
	})
}

// TestNothingOfAnotherHistoryIsStored checks that the event or bookmark that shows a restored server is not delivered.
// After a crash, the stored resourceVersion must let the next run detect the restore.
func TestNothingOfAnotherHistoryIsStored(t *testing.T) {
	for _, bookmark := range []bool{true, false} {
		bubble(t, func(g *rig) {
			g.s.put("a/x", "1")
			b := g.s.backup()
			g.s.put("a/lost", "1")
			g.start(reflector.Options{})
			g.restart(func() {
				g.s.restore(b)
				g.s.other(10)
				g.s.noBookmarks = !bookmark
			}, reflector.Options{})
			if !bookmark {
				g.s.other(1)
				g.s.put("a/x", "2")
			}
			g.sleep(10 * time.Second)
			if l := g.m.lines(); len(l) < 2 || l[0] != "MUSTLIST Rewound" || l[1] != "BEGIN Rewound" {
				t.Errorf("sink calls %q", l)
			}
			g.stop()
		})
	}
}

// TestSeveralChangesAtOneVersion: kube-apiserver never sends two events at one resourceVersion; other servers may.
func TestSeveralChangesAtOneVersion(t *testing.T) {
	bubble(t, func(g *rig) {
		g.s.put("a/x", "1")
		g.s.put("a/y", "1")
		g.start(reflector.Options{})
		g.restart(func() {
			g.s.put("a/x", "2")
			g.s.mu.Lock()
			g.s.rv--
			g.s.mu.Unlock()
			g.s.put("a/y", "2")
		}, reflector.Options{})
		g.wantLog("MODIFIED a/x 103", "MODIFIED a/y 103", "SYNCED")
		g.wantNoList()
		g.stop()
	})
}
