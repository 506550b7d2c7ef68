package reflector_test

import (
	"context"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/larder-dev/larder/reflector"
)

// TestDrainByBookmark checks that a bookmark ends the state Drain if only other resources have changed.
func TestDrainByBookmark(t *testing.T) {
	bubble(t, func(g *rig) {
		g.s.put("a/x", "1")
		g.start(reflector.Options{})
		g.restart(func() { g.s.other(7) }, reflector.Options{})
		if st := g.r.Status(); g.m.syncs() != 0 || st.State != reflector.Drain {
			t.Errorf("synced before the bookmark: %+v", st)
		}
		g.sleep(time.Second)
		g.wantLog("BOOKMARK 108", "SYNCED")
		if st := g.r.Status(); st.State != reflector.Watch || st.ResourceVersion != "108" || st.Watches != 1 {
			t.Errorf("status %+v", st)
		}
		g.sleep(3 * time.Second)
		if st := g.r.Status(); st.Watches != 2 || st.Lists != 0 || *g.s.seen()[len(g.s.seen())-1].TimeoutSeconds < 300 {
			t.Errorf("status %+v, requests %s", st, asJSON(g.s.seen()))
		}
		g.stop()
	})
}

// TestDrainTakesSeveralWatches checks that the state Drain keeps its target over several watches.
func TestDrainTakesSeveralWatches(t *testing.T) {
	bubble(t, func(g *rig) {
		g.s.put("a/x", "1")
		g.start(reflector.Options{})
		g.s.noBookmarks = true
		g.restart(func() { g.s.other(7) }, reflector.Options{})
		g.sleep(4 * time.Second)
		if st := g.r.Status(); st.State != reflector.Drain || st.Watches != 2 || g.m.syncs() != 0 {
			t.Errorf("status %+v", st)
		}
		g.s.noBookmarks = false
		g.s.other(1)
		g.sleep(3 * time.Second)
		if st := g.r.Status(); st.State != reflector.Watch || g.m.syncs() != 1 || st.Lookups != 1 {
			t.Errorf("status %+v", st)
		}
		g.stop()
	})
}

// TestDrainWhileBusy: the newest resourceVersion of a busy server would never be reached.
func TestDrainWhileBusy(t *testing.T) {
	bubble(t, func(g *rig) {
		g.s.put("a/x", "1")
		g.start(reflector.Options{})
		g.s.noBookmarks = true
		calls := 0
		o := reflector.Options{Verify: func(context.Context, time.Time) (reflector.Reason, error) {
			if calls++; calls == 2 {
				g.s.put("a/y", "1") // its resourceVersion is above the first probe's
				g.s.other(100)      // the server's resourceVersion is then far above the probed one
			}
			return "", nil
		}}
		g.restart(func() { g.s.other(7) }, o)
		g.sleep(2 * time.Second)
		if g.m.syncs() != 0 {
			t.Error("synced early")
		}
		g.sleep(2 * time.Second)
		if g.m.syncs() != 1 {
			t.Error("not synced although the first probe's resourceVersion has been passed")
		}
		g.stop()
	})
}

// TestQuietDrainsNeedAServerWithoutBookmarks checks that silence does not end the state Drain after a bookmark.
func TestQuietDrainsNeedAServerWithoutBookmarks(t *testing.T) {
	bubble(t, func(g *rig) {
		g.s.put("a/x", "1")
		g.start(reflector.Options{})
		g.s.other(1)
		g.sleep(61 * time.Second)
		g.m.forget()
		g.s.noBookmarks = true
		g.s.other(1)
		g.s.cut(nil)
		g.sleep(time.Minute)
		if st := g.r.Status(); g.m.syncs() != 0 || st.State != reflector.Drain {
			t.Errorf("status %+v", st)
		}
		g.s.noBookmarks = false
		g.sleep(5 * time.Second)
		if g.m.syncs() != 1 {
			t.Errorf("%d syncs", g.m.syncs())
		}
		g.stop()
	})
}

// TestDrainWithoutBookmarks checks that four silent watches end the state Drain if a server never sends bookmarks.
func TestDrainWithoutBookmarks(t *testing.T) {
	bubble(t, func(g *rig) {
		g.s.noBookmarks = true
		g.s.put("a/x", "1")
		g.start(reflector.Options{})
		g.restart(func() { g.s.other(7) }, reflector.Options{})
		g.sleep(11 * time.Second)
		if g.m.syncs() != 0 {
			t.Error("synced early")
		}
		g.sleep(2 * time.Second)
		if st := g.r.Status(); g.m.syncs() != 1 || st.State != reflector.Watch || st.Lists != 0 {
			t.Errorf("status %+v", st)
		}
		g.stop()
	})
}

// TestSyncedIsNotEarly checks that Synced is not called if the watch of the state Drain ends before its last event.
func TestSyncedIsNotEarly(t *testing.T) {
	bubble(t, func(g *rig) {
		g.s.put("a/x", "1")
		g.start(reflector.Options{})
		g.restart(func() {
			for range 10 {
				g.s.put("a/x", "2")
			}
			n := 0
			g.s.onWatch = func(ctx context.Context, r request) (watch.Interface, error) {
				if n++; n > 3 {
					return nil, nil
				}
				w, err := g.s.watch(ctx, r)
				ow := w.(*openWatch)
				g.s.mu.Lock()
				ow.queue, ow.ended = ow.queue[:2], true // the watch sends two of the events and then ends
				g.s.mu.Unlock()
				return w, err
			}
		}, reflector.Options{})
		for g.m.syncs() == 0 {
			if st := g.r.Status(); st.ResourceVersion == "111" {
				t.Fatal("everything is there, but not synced")
			}
			g.sleep(100 * time.Millisecond)
		}
		if st := g.r.Status(); st.ResourceVersion != "111" {
			t.Errorf("synced at %s", st.ResourceVersion)
		}
		g.wantNoList()
		g.stop()
	})
}
