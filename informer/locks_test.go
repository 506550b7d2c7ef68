package informer_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/store"
)

// caller is a logger that calls methods of the informer that logs to it, as a program's log sink may. It fails the test
// if such a call would deadlock.
type caller struct {
	t        *testing.T
	informer atomic.Pointer[informer.Informer]
	busy     atomic.Bool // busy is true while this logger calls the informer, whose methods log too

	mu    sync.Mutex
	lines []string
}

func (c *caller) logger() logr.Logger {
	return funcr.New(func(_, args string) {
		c.mu.Lock()
		c.lines = append(c.lines, args)
		c.mu.Unlock()
		c.call(args)
	}, funcr.Options{})
}

func (c *caller) call(line string) {
	i := c.informer.Load()
	if i == nil || !c.busy.CompareAndSwap(false, true) {
		return
	}
	defer c.busy.Store(false)
	for name, l := range informer.Locks(i) {
		if !isFree(l) {
			c.t.Errorf("logged under %s: %s", name, line)
			return
		}
	}
	i.Status()
	i.HasSynced()
	if reg, err := i.AddEventHandler(&recorder{}); err == nil {
		if err := i.RemoveEventHandler(reg); err != nil {
			c.t.Error(err)
		}
	}
}

// isFree reports whether a lock is free or becomes free soon. A lock that the calling goroutine itself holds does not
// become free.
func isFree(l informer.Lock) bool {
	for range 100_000 {
		if l.TryLock() {
			l.Unlock()
			return true
		}
		runtime.Gosched()
	}
	return false
}

func (c *caller) logged(text string) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, line := range c.lines {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

// TestLoggerCallsTheInformer checks that the informer holds no lock when it logs a line about a handler.
func TestLoggerCallsTheInformer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.o.ResyncPeriod = time.Minute
		c := &caller{t: t}
		logger := c.logger()
		i := r.open()
		c.informer.Store(i)
		add := func(h cache.ResourceEventHandler, period time.Duration) {
			t.Helper()
			if _, err := i.AddEventHandlerWithOptions(h,
				cache.HandlerOptions{Logger: &logger, ResyncPeriod: &period}); err != nil {
				t.Fatal(err)
			}
		}
		want := func(times int, text string) {
			t.Helper()
			if n := c.logged(text); n != times {
				t.Errorf("%q was logged %d times, want %d", text, n, times)
			}
		}
		add(&recorder{}, time.Millisecond)
		want(1, "resync period is too small")
		g := newGate()
		r.run()
		add(&recorder{hook: g.wait}, time.Millisecond)
		want(2, "resync period is too small")
		for n := range mergeThreshold + 1 {
			r.srv.write(fmt.Sprintf("a/%04d", n), "x")
			if n == mergeThreshold/2 {
				synctest.Wait() // on one core the first handler might otherwise fall behind
			}
		}
		synctest.Wait()
		want(1, "Event handler is behind")
		g.release()
		want(1, "Event handler has caught up")
		r.close()
	})
}

// TestLoggerOfShortPeriodsCallsTheInformer checks that the informer holds no lock when it warns of a resync period.
func TestLoggerOfShortPeriodsCallsTheInformer(t *testing.T) {
	for check, want := range map[time.Duration]string{
		time.Minute: "the informer has already started",
		0:           "doesn't support resyncing",
	} {
		bubble(t, func(t *testing.T) {
			r := newRig(t)
			r.o.ResyncPeriod = check
			c := &caller{t: t}
			logger, period := c.logger(), 10*time.Second
			i := r.start()
			c.informer.Store(i)
			if _, err := i.AddEventHandlerWithOptions(&recorder{},
				cache.HandlerOptions{Logger: &logger, ResyncPeriod: &period}); err != nil {
				t.Fatal(err)
			}
			if n := c.logged(want); n != 1 {
				t.Errorf("%q was logged %d times", want, n)
			}
			r.close()
		})
	}
}

type badStore struct {
	store.Interface
	bad string
}

var errBad = errors.New("from the test")

func (s *badStore) Iterate(ctx context.Context, after string, fn func(string, apiruntime.Object) error) error {
	return s.Interface.Iterate(ctx, after, func(key string, obj apiruntime.Object) error {
		if key == s.bad {
			return errBad
		}
		return fn(key, obj)
	})
}

func (s *badStore) Get(ctx context.Context, key string) (apiruntime.Object, error) {
	if key == s.bad {
		return nil, errBad
	}
	return s.Interface.Get(ctx, key)
}

// logErrors makes utilruntime.HandleErrorWithContext log to the context's logger.
func logErrors(t *testing.T) {
	t.Helper()
	old := utilruntime.ErrorHandlers
	utilruntime.ErrorHandlers = []utilruntime.ErrorHandler{func(ctx context.Context, err error, msg string,
		keysAndValues ...any) {
		klog.FromContext(ctx).Error(err, msg, keysAndValues...)
	}}
	t.Cleanup(func() { utilruntime.ErrorHandlers = old })
}

// TestLoggerOfUnreadableObjectsCallsTheInformer checks that the informer holds no lock when it reports a stored object
// that cannot be read.
func TestLoggerOfUnreadableObjectsCallsTheInformer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		logErrors(t)
		for n := range 3 {
			r.srv.write(fmt.Sprintf("a/%d", n), "x")
		}
		c := &caller{t: t}
		logger := c.logger()
		i := r.start()
		informer.SetStore(i, &badStore{Interface: informer.Store(i), bad: "a/1"})
		c.informer.Store(i)
		h := &recorder{}
		if _, err := i.AddEventHandlerWithOptions(h, cache.HandlerOptions{Logger: &logger}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		equal(t, "handler", h.take(), []string{"add a/0@101=x initial", "add a/2@103=x initial"})
		if n := c.logged("a/1"); n != 1 {
			t.Errorf("the object was reported %d times to the handler's logger", n)
		}
		r.close()
	})
}
