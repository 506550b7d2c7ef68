package base

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

const limit = 90 * time.Second

// stuck is a function that ignores its context, and returns 7 after released is closed.
type stuck struct {
	released chan struct{}

	mu      sync.Mutex
	dropped []int // dropped are the results that were passed to Drop; mu guards dropped
}

func newStuck() *stuck { return &stuck{released: make(chan struct{})} }

func (s *stuck) fn(context.Context) (int, error) {
	<-s.released
	return 7, nil
}

func (s *stuck) drop(v int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropped = append(s.dropped, v)
}

func (s *stuck) release(t *testing.T, n int) {
	t.Helper()
	close(s.released)
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.dropped) != n {
		t.Errorf("dropped %v, want %d answers", s.dropped, n)
	}
}

func call(
	ctx context.Context, g *Guest[int], fn func(context.Context) (int, error),
) (v int, took time.Duration, err error) {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	begun := time.Now()
	v, err = g.Call(ctx, limited, fn)
	return v, time.Since(begun), err
}

func TestCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &Guest[int]{Wait: time.Second}
		v, took, err := call(t.Context(), g, func(context.Context) (int, error) { return 3, nil })
		if v != 3 || took != 0 || err != nil {
			t.Error(v, took, err)
		}
		_, took, err = call(t.Context(), g, func(ctx context.Context) (int, error) {
			<-ctx.Done()
			return 0, ctx.Err()
		})
		if took != limit || !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrOverdue) {
			t.Error("heeds its context:", took, err)
		}
	})
}

func TestOverdueIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStuck()
		g := &Guest[int]{What: "test", Wait: 5 * time.Second, Drop: s.drop}
		_, took, err := call(t.Context(), g, s.fn)
		if took != limit+g.Wait || !errors.Is(err, ErrOverdue) ||
			!strings.Contains(err.Error(), "has not returned for 1m35s") {
			t.Error(took, err)
		}
		s.release(t, 1)
	})
}

func TestOverdueIsWaitedFor(t *testing.T) {
	for _, end := range []string{"released", "the context ends", "the context ends before it is overdue"} {
		t.Run(end, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				s := newStuck()
				var received []error
				g := &Guest[int]{What: "test", Wait: 5 * time.Second, Drop: s.drop,
					Overdue: func(err error) { received = append(received, err) }}
				early := end == "the context ends before it is overdue"
				at := time.Hour
				if early {
					at = time.Minute
				}
				time.AfterFunc(at, func() {
					if end == "released" {
						close(s.released)
					} else {
						cancel()
					}
				})
				v, took, err := call(ctx, g, s.fn)
				switch {
				case end == "released":
					if v != 7 || took != at || err != nil {
						t.Error(v, took, err)
					}
				case took != at+g.Wait || !errors.Is(err, context.Canceled):
					t.Error(took, err)
				}
				if want := map[bool]int{true: 0, false: 1}[early]; len(received) != want || want == 1 &&
					!errors.Is(received[0], ErrOverdue) {
					t.Errorf("received %v", received)
				}
				if end != "released" {
					s.release(t, 1)
				}
				cancel()
			})
		})
	}
}

func TestFewAreLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStuck()
		g := &Guest[int]{What: "test", Wait: time.Second, Drop: s.drop}
		for range maxLeft {
			if _, took, err := call(t.Context(), g, s.fn); took != limit+g.Wait || !errors.Is(err, ErrOverdue) {
				t.Error(took, err)
			}
		}
		if _, took, err := call(t.Context(), g, s.fn); took != 0 || !errors.Is(err, ErrOverdue) {
			t.Error(took, err)
		}
		s.release(t, maxLeft)
		if v, _, err := call(t.Context(), g, s.fn); v != 7 || err != nil {
			t.Error(v, err)
		}
	})
}

func TestPanics(t *testing.T) {
	defer func(was bool) { utilruntime.ReallyCrash = was }(utilruntime.ReallyCrash)
	utilruntime.ReallyCrash = false
	synctest.Test(t, func(t *testing.T) {
		s := newStuck()
		g := &Guest[int]{What: "test", Wait: time.Second, Drop: func(int) { panic("asked to panic, in Drop") }}
		if _, took, err := call(t.Context(), g, func(context.Context) (int, error) { panic("asked to panic") }); took != 0 ||
			!errors.Is(err, ErrPanicked) {
			t.Error(took, err)
		}
		if _, _, err := call(t.Context(), g, s.fn); !errors.Is(err, ErrOverdue) {
			t.Error(err)
		}
		s.release(t, 0)
	})
}
