package reflector_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/limiter"
	"github.com/larder-dev/larder/reflector"
)

// fullSink is a Sink whose method named where blocks until the test releases it.
type fullSink struct {
	*memory
	where    string
	released chan struct{}
}

func (m *fullSink) at(ctx context.Context, where string) {
	if where != m.where {
		return
	}
	select {
	case <-m.released:
	case <-ctx.Done():
	}
}

func (m *fullSink) BeginReplace(ctx context.Context, reason reflector.Reason) error {
	m.at(ctx, "BeginReplace")
	return m.memory.BeginReplace(ctx, reason)
}

func (m *fullSink) Page(ctx context.Context, items []runtime.Object) error {
	m.at(ctx, "Page")
	return m.memory.Page(ctx, items)
}

func (m *fullSink) Known(ctx context.Context, refs []entry.ObjectRef) ([]entry.ObjectRef, error) {
	m.at(ctx, "Known")
	return m.memory.Known(ctx, refs)
}

func (m *fullSink) Event(ctx context.Context, t watch.EventType, obj runtime.Object, rv string) error {
	m.at(ctx, "Event")
	return m.memory.Event(ctx, t, obj, rv)
}

func (m *fullSink) EndReplace(ctx context.Context, rv string) error {
	m.at(ctx, "EndReplace")
	return m.memory.EndReplace(ctx, rv)
}

// TestSlotIsReleased checks that other reflectors can list while a page waits for its retry, or a Sink blocks.
func TestSlotIsReleased(t *testing.T) {
	for _, what := range []string{"retry", "sink"} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				full := make(chan struct{})
				g := newFleet(t, 6, func(i int, m *member) {
					switch {
					case i >= 2:
					case what == "sink":
						m.onPage = func(ctx context.Context) {
							select {
							case <-full:
							case <-ctx.Done():
							}
						}
					default:
						m.onList = func(r request) (runtime.Object, error) {
							if r.Continue != "" {
								select {
								case <-full:
								default:
									return nil, apierrors.NewTooManyRequests("later", 1)
								}
							}
							return nil, nil
						}
					}
				})
				time.Sleep(time.Minute)
				if n := g.live(); n != 4 {
					t.Errorf("%d of 4 are live", n)
				}
				close(full)
				time.Sleep(2 * time.Minute)
				if n := g.live(); n != 6 {
					t.Errorf("%d of 6 are live", n)
				}
				g.end()
			})
		})
	}
}

func TestSlotIsReleasedWhileTheSinkIsFull(t *testing.T) {
	for _, where := range []string{"BeginReplace", "Page", "Known", "Event", "EndReplace"} {
		t.Run(where, func(t *testing.T) {
			bubble(t, func(g *rig) {
				g.fill(30)
				g.start(reflector.Options{})
				g.stop()
				l := limiter.New()
				sink := &fullSink{memory: g.m, where: where, released: make(chan struct{})}
				g.m.relist = reflector.ReasonStore
				o := reflector.Options{Limiter: l, PageSize: 10}
				if where == "Known" {
					o.ListMetadata = (&metadata{s: g.s}).list
				}
				g.atPage(3, func() error { // by the third page the watch beside the list is open
					g.s.put("a/05", "2")
					time.Sleep(time.Second)
					return nil
				})
				g.r = reflector.New(g.s, sink, o)
				done := make(chan error)
				ctx, cancel := context.WithCancel(context.Background())
				go func() { done <- g.r.Run(ctx) }()
				g.sleep(slowSinkAfter + time.Second)
				if st := g.r.Status(); st.State != reflector.Relist {
					t.Errorf("status %+v: the test tests nothing", st)
				}
				wantBothSlots(t, l)
				close(sink.released)
				g.sleep(time.Minute)
				g.converged()
				if st := g.r.Status(); st.State != reflector.Watch || st.Err != nil {
					t.Errorf("status %+v", st)
				}
				cancel()
				if err := <-done; err != nil {
					t.Error(err)
				}
				wantBothSlots(t, l)
			})
		})
	}
}

// wantBothSlots checks that the Limiter permits two lists at a time, so no permission was lost.
func wantBothSlots(t *testing.T, l *limiter.Limiter) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	for range 2 {
		slot, err := l.List(ctx, false, nil)
		if err != nil {
			t.Error(err)
		}
		defer slot.Done()
	}
}
