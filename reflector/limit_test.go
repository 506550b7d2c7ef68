package reflector_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/larder-dev/larder/reflector"
)

type link struct {
	*server
	perObject func() time.Duration
}

func (l link) ListWithContext(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	list, err := l.server.ListWithContext(ctx, o)
	if err != nil {
		return nil, err
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(time.Duration(len(list.(*corev1.ConfigMapList).Items)) * l.perObject()):
		return list, nil
	}
}

func (g *rig) limits() (limits []int64) {
	for _, r := range g.s.seen() {
		if !r.Watch && !r.probe() {
			limits = append(limits, r.Limit)
		}
	}
	return limits
}

func (g *rig) wantLimits(want ...int64) {
	g.t.Helper()
	if got := g.limits(); !slices.Equal(got, want) {
		g.t.Errorf("pages of %d were asked for, want %d", got, want)
	}
}

func TestFirstPages(t *testing.T) {
	bubble(t, func(g *rig) {
		g.fill(6000)
		g.start(reflector.Options{})
		g.sleep(time.Second)
		g.converged()
		g.wantLimits(500, 1000, 2000, 2000, 2000)
		g.r.Relist(reflector.ReasonStore)
		g.sleep(time.Second)
		g.wantLimits(500, 1000, 2000, 2000, 2000, 2000, 2000, 2000)
		g.stop()
	})
}

// TestPagesTooSlow checks that the first page shrinks until it arrives in time, that a slow page does not double the
// limit, and that pages grow again on a better link.
func TestPagesTooSlow(t *testing.T) {
	bubble(t, func(g *rig) {
		g.fill(2000)
		perObject := 400 * time.Millisecond
		g.startOn(link{g.s, func() time.Duration { g.barrier(); return perObject }}, reflector.Options{})
		g.sleep(4 * time.Minute) // a page of 500 and one of 250 time out after 90 s each; a page of 62 takes 25 s
		g.wantLimits(500, 250, 62, 62, 62)
		if l := g.m.lines(); count(l, "BEGIN") != 1 || count(l, "ABORT") != 0 || len(g.errs) != 2 {
			t.Errorf("sink calls %q, errors %v", l, g.errs)
		}
		g.s.mu.Lock()
		perObject = time.Millisecond
		g.s.mu.Unlock()
		g.sleep(5 * time.Minute)
		g.converged()
		got := g.limits()
		if want := []int64{248, 496, 992}; !slices.Equal(got[len(got)-3:], want) {
			t.Errorf("pages of %d were asked for, want %d at the end", got, want)
		}
		g.stop()
	})
}

// cutErrors returns the errors of answers that timed out or broke off, as a client receives them.
func cutErrors() map[string]error {
	body := "unexpected error when reading response body. Please retry. Original error: %w"
	return map[string]error{
		"timeout":           context.DeadlineExceeded,
		"client's timeout":  &url.Error{Op: "Get", URL: "x", Err: context.DeadlineExceeded},
		"wrapped timeout":   &url.Error{Op: "Get", URL: "x", Err: fmt.Errorf("proxy: %w", context.DeadlineExceeded)},
		"read timeout":      &net.OpError{Op: "read", Err: context.DeadlineExceeded},
		"504":               apierrors.NewTimeoutError("slow", 1),
		"unexpected EOF":    io.ErrUnexpectedEOF,
		"reset in the body": fmt.Errorf(body, &net.OpError{Op: "read", Err: syscall.ECONNRESET}),
		"http2 in the body": errors.New(
			"stream error when reading response body, may be caused by closed connection. Please retry. Original error: " +
				"stream ID 5; INTERNAL_ERROR"),
	}
}

func refusals() map[string]error {
	all := transportErrors()
	// Answers that break off depend on the size; a 400 restarts the list.
	for _, cut := range []string{"timeout", "unexpected EOF", "504", "400"} {
		delete(all, cut)
	}
	for k, v := range deniedErrors() {
		all[k] = v
	}
	all["dial timeout"] = &url.Error{Op: "Get", URL: "x", Err: &net.OpError{Op: "dial", Err: context.DeadlineExceeded}}
	return all
}

func TestIsCut(t *testing.T) {
	for name, err := range cutErrors() {
		if !reflector.IsCut(fmt.Errorf("list things: %w", err)) {
			t.Errorf("%s is taken for a refusal", name)
		}
	}
	no := refusals()
	no["too large"] = apierrors.NewTimeoutError("Too large resource version: 5, current: 4", 1)
	for name, err := range no {
		if reflector.IsCut(fmt.Errorf("list things: %w", err)) {
			t.Errorf("%s is taken for an answer that was cut", name)
		}
	}
}

// TestPagesCut checks that a page is requested again, with half the limit if its answer was cut off.
func TestPagesCut(t *testing.T) {
	try := func(want []int64, faults map[string]error) {
		for name, fault := range faults {
			t.Run(name, func(t *testing.T) {
				bubble(t, func(g *rig) {
					g.fill(250)
					left := 2
					g.s.onList = func(r request) (runtime.Object, error) {
						if r.Continue != "" && left > 0 {
							left--
							return nil, fault
						}
						return nil, nil
					}
					g.start(reflector.Options{PageSize: 100})
					g.sleep(5 * time.Minute)
					g.converged()
					g.wantLimits(want...)
					if l := g.m.lines(); count(l, "BEGIN") != 1 || count(l, "ABORT") != 0 || len(g.errs) != 2 {
						t.Errorf("sink calls %q, errors %v", l, g.errs)
					}
					g.stop()
				})
			})
		}
	}
	try([]int64{100, 100, 50, 25, 25, 50, 100}, cutErrors())
	try([]int64{100, 100, 100, 100, 100}, refusals())
}

// TestFirstPageCut checks that the limit stays lowered after a list has failed, and that it has a minimum.
func TestFirstPageCut(t *testing.T) {
	bubble(t, func(g *rig) {
		g.fill(10)
		left := 7
		g.s.onList = func(request) (runtime.Object, error) {
			if left > 0 {
				left--
				return nil, io.ErrUnexpectedEOF
			}
			return nil, nil
		}
		g.start(reflector.Options{PageSize: 20})
		g.sleep(5 * time.Minute)
		g.converged()
		g.wantLimits(20, 10, 5, 2, 2, 2, 2, 2, 4, 8)
		g.stop()
	})
}

func TestPagesAlwaysCut(t *testing.T) {
	bubble(t, func(g *rig) {
		g.fill(2000)
		g.s.onList = func(r request) (runtime.Object, error) {
			if r.Limit > 30 {
				return nil, io.ErrUnexpectedEOF
			}
			return nil, nil
		}
		g.start(reflector.Options{PageSize: 40})
		g.sleep(10 * time.Minute)
		g.converged()
		cuts := 0
		for _, n := range g.limits() {
			if n == 40 {
				cuts++
			}
		}
		if total := len(g.limits()); cuts > 8 || total != 100+cuts {
			t.Errorf("%d pages of 40 and %d of 20", cuts, total-cuts)
		}
		g.s.onList = nil
		g.r.Relist(reflector.ReasonStore)
		g.sleep(10 * time.Minute)
		if got := g.limits(); got[len(got)-1] != 40 {
			t.Errorf("pages did not grow again: %d", got)
		}
		g.stop()
	})
}

func TestPagesOfLargeObjects(t *testing.T) {
	bubble(t, func(g *rig) {
		large := strings.Repeat("x", 100<<10)
		for i := range 2000 {
			value := large
			if i >= 1000 {
				value = "1"
			}
			g.s.put(fmt.Sprintf("a/%04d", i), value)
		}
		g.start(reflector.Options{})
		g.sleep(time.Second)
		g.converged()
		// 163 objects are 16 MiB. The last page of 163 includes some small objects; after it the limit doubles again.
		g.wantLimits(500, 163, 163, 163, 163, 326, 652)
		g.stop()
	})
}
