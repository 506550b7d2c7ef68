package reflector_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/larder-dev/larder/reflector"
)

// stuckLister is a ListerWatcher that ignores its context, as a cache.ListWatch with a ListFunc does. A request for
// which stuck returns true lasts until released is closed.
type stuckLister struct {
	*server
	stuck    func(r request) bool
	released chan struct{}
	// late counts the answers after released was closed. held counts the requests that have blocked.
	late, held atomic.Int32
	watches    chan watch.Interface
}

func newStuckLister(s *server, stuck func(r request) bool) *stuckLister {
	return &stuckLister{server: s, stuck: stuck, released: make(chan struct{}), watches: make(chan watch.Interface, 10)}
}

func (d *stuckLister) ListWithContext(_ context.Context, o metav1.ListOptions) (runtime.Object, error) {
	d.wait(request{ListOptions: o})
	return d.server.ListWithContext(context.Background(), o)
}

func (d *stuckLister) WatchWithContext(_ context.Context, o metav1.ListOptions) (watch.Interface, error) {
	d.wait(request{Watch: true, ListOptions: o})
	w := watch.NewFake()
	d.watches <- w
	return w, nil
}

func (d *stuckLister) wait(r request) {
	if d.stuck(r) {
		d.held.Add(1)
		<-d.released
		d.late.Add(1)
	}
}

// TestStuckListerWatcher checks that Run ends although a request ignores its context, and drops a late result.
func TestStuckListerWatcher(t *testing.T) {
	for name, tt := range map[string]struct {
		stuck func(r request) bool
		// held is true if the Sink has the objects of an earlier list.
		held bool
		n    int32
	}{
		"the first page":     {stuck: func(r request) bool { return !r.Watch && !r.probe() }, n: 1},
		"the second page":    {stuck: func(r request) bool { return r.Continue != "" }, n: 1},
		"the folded watch":   {stuck: func(r request) bool { return r.Watch }, n: 1},
		"both":               {stuck: func(r request) bool { return r.Watch || r.Continue != "" }, n: 2},
		"the probe":          {stuck: request.probe, held: true, n: 1},
		"the resuming watch": {stuck: func(r request) bool { return r.Watch }, held: true, n: 1},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(g *rig) {
				g.fill(30)
				if tt.held {
					g.start(reflector.Options{})
					g.sleep(time.Minute)
					g.stop()
				}
				d := newStuckLister(g.s, tt.stuck)
				ctx, cancel := context.WithCancel(context.Background())
				done := make(chan error, 1)
				r := reflector.New(d, g.m, reflector.Options{PageSize: 10})
				go func() { done <- r.Run(ctx) }()
				// Ten minutes are longer than any time-out: the reflector keeps waiting for the request.
				time.Sleep(10 * time.Minute)
				synctest.Wait()
				if n := d.held.Load(); n != tt.n {
					t.Errorf("%d requests wait before the end, want %d", n, tt.n)
				}
				begun := time.Now()
				cancel()
				if err := <-done; err != nil {
					t.Errorf("Run: %v", err)
				}
				if took := time.Since(begun); took > reflector.MaxStop {
					t.Errorf("Run took %v to end", took)
				}
				close(d.released)
				synctest.Wait()
				if n := d.late.Load(); n != tt.n {
					t.Errorf("%d requests ended late, want %d", n, tt.n)
				}
				close(d.watches)
				for w := range d.watches {
					if !w.(*watch.FakeWatcher).IsStopped() {
						t.Error("a watch was not stopped")
					}
				}
			})
		})
	}
}

func TestListerWatcherPanics(t *testing.T) {
	defer func(was bool) { utilruntime.ReallyCrash = was }(utilruntime.ReallyCrash)
	utilruntime.ReallyCrash = false
	bubble(t, func(g *rig) {
		g.fill(30)
		lists, watches := 0, 0
		g.s.onList = func(request) (runtime.Object, error) {
			if lists++; lists%2 == 1 {
				panic("asked to panic")
			}
			return nil, nil
		}
		g.s.onWatch = func(context.Context, request) (watch.Interface, error) {
			if watches++; watches == 1 {
				panic("asked to panic")
			}
			return nil, nil
		}
		g.start(reflector.Options{PageSize: 10})
		g.sleep(5 * time.Minute)
		g.converged()
		if len(g.errs) == 0 {
			t.Error("no error was reported")
		}
		for _, err := range g.errs {
			if !errors.Is(err, reflector.ErrPanicked) {
				t.Errorf("reported: %v", err)
			}
		}
		g.stop()
	})
}
