package reflector_test

import (
	"context"
	"io"
	"slices"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/larder-dev/larder/reflector"
)

// TestLive checks the calls of OnLive for each way in which a connection may end. A watch that ends at its time-out and
// is followed by another causes no call.
func TestLive(t *testing.T) {
	for name, tt := range map[string]struct {
		do   func(g *rig)
		want []bool
	}{
		"routine reconnects": {func(g *rig) {
			for range 12 {
				g.s.put("a/x", "2")
				g.s.other(3)
				g.sleep(5 * time.Minute)
			}
			if st := g.r.Status(); st.Watches < 6 {
				g.t.Errorf("%d watches in an hour", st.Watches)
			}
		}, []bool{true}},
		"an ERROR event": {func(g *rig) {
			g.s.cut(&apierrors.StatusError{ErrStatus: apierrors.NewInternalError(io.EOF).Status()})
		}, []bool{true, false, true}},
		"no server": {func(g *rig) {
			down := true
			g.s.mu.Lock()
			g.s.onWatch = func(context.Context, request) (watch.Interface, error) {
				if down {
					return nil, io.EOF
				}
				return nil, nil
			}
			g.s.mu.Unlock()
			g.s.cut(&apierrors.StatusError{ErrStatus: apierrors.NewInternalError(io.EOF).Status()})
			g.sleep(10 * time.Minute)
			g.barrier()
			down = false
		}, []bool{true, false, true}},
		"the history is lost": {func(g *rig) {
			g.s.put("a/x", "2")
			g.s.compact()
			g.s.cut(&apierrors.StatusError{ErrStatus: apierrors.NewResourceExpired("gone").Status()})
		}, []bool{true, false, true}},
		"a list is asked for": {func(g *rig) { g.r.Relist(reflector.ReasonOpenAPI) }, []bool{true, false, true}},
		"ended early, and nothing has happened": {func(g *rig) {
			g.sleep(time.Minute)
			g.s.cut(nil)
		}, []bool{true}},
		"half-open": {func(g *rig) {
			g.s.other(1)
			g.sleep(2 * time.Minute) // a bookmark arrives within this time
			g.s.mute()
			g.s.put("a/x", "2")
		}, []bool{true, false, true}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(g *rig) {
				g.s.put("a/x", "1")
				g.start(reflector.Options{})
				g.restart(func() { g.s.put("a/y", "1") }, reflector.Options{})
				g.sleep(time.Minute)
				tt.do(g)
				g.sleep(10 * time.Minute)
				if !slices.Equal(g.live, tt.want) || !g.r.Live() {
					t.Errorf("OnLive received %v, want %v", g.live, tt.want)
				}
				g.converged()
				g.stop()
			})
		})
	}
}

func TestLiveAfterSynced(t *testing.T) {
	bubble(t, func(g *rig) {
		g.s.put("a/x", "1")
		g.start(reflector.Options{})
		synced := 0
		g.restart(func() {
			g.s.other(5)
			g.m.onSynced = func(string) {
				synced++
				if g.r.Live() {
					t.Error("live before Synced has returned")
				}
			}
		}, reflector.Options{})
		if st := g.r.Status(); st.State != reflector.Drain || st.Live {
			t.Errorf("%+v", st)
		}
		g.sleep(time.Minute)
		if !g.r.Live() || synced == 0 {
			t.Errorf("%+v, synced %d", g.r.Status(), synced)
		}
		g.stop()
	})
}
