package informer_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/reflector"
)

type handled struct {
	mu   sync.Mutex
	errs []error
}

func (h *handled) handle(_ *cache.Reflector, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.errs = append(h.errs, err)
}

func (h *handled) all() []error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.errs
}

// runOn runs an informer in memory on the ListerWatcher lw. stop ends the run and returns how long that took.
func runOn(t *testing.T, lw cache.ListerWatcher, o informer.Options, h *handled) (i *informer.Informer,
	stop func() time.Duration) {
	t.Helper()
	o.InMemory, o.Identity, o.Logger = true, podsIdentity, &discard
	i, err := informer.New(lw, &corev1.Pod{}, o)
	if err == nil {
		err = i.SetWatchErrorHandler(h.handle)
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		i.RunWithContext(ctx)
	}()
	return i, func() time.Duration {
		begun := time.Now()
		cancel()
		<-done
		return time.Since(begun)
	}
}

// TestHangingList checks that a list request that ignores its context appears in Status.Err, and reaches the watch
// error handler once. Issue 3.
func TestHangingList(t *testing.T) {
	bubble(t, func(t *testing.T) {
		released := make(chan struct{})
		h := &handled{}
		i, stop := runOn(t, &cache.ListWatch{ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object,
			error) {
			<-released
			return nil, errors.New("released")
		}}, informer.Options{}, h)
		time.Sleep(time.Minute)
		if s := i.Status(); s.Err != nil {
			t.Errorf("in time: %v", s.Err)
		}
		time.Sleep(time.Hour)
		err := i.Status().Err
		if !errors.Is(err, reflector.ErrOverdue) ||
			!strings.HasPrefix(err.Error(), "failed to list *v1.Pod: the call has not returned for 1m35s") {
			t.Errorf("overdue: %v", err)
		}
		if errs := h.all(); len(errs) != 1 || !errors.Is(errs[0], reflector.ErrOverdue) {
			t.Errorf("the watch error handler received %v", errs)
		}
		if took := stop(); took > 10*time.Second {
			t.Errorf("the run took %v to end", took)
		}
		close(released)
		synctest.Wait()
	})
}

// TestHangingCallback checks that the status reports that a changed schema would go unnoticed if Options.OpenAPIHash
// hangs. If Options.ClusterID hangs, the connect fails and is retried.
func TestHangingCallback(t *testing.T) {
	for name, tt := range map[string]struct {
		errs      int
		unguarded bool
		set       func(o *informer.Options, fn func(context.Context) (string, error))
	}{
		"ClusterID": {errs: 1, set: func(o *informer.Options,
			fn func(context.Context) (string, error)) {
			o.ClusterID = fn
		}},
		"OpenAPIHash": {unguarded: true, set: func(o *informer.Options,
			fn func(context.Context) (string, error)) {
			o.OpenAPIHash = fn
		}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				srv := newServer()
				srv.write("a/1", "x")
				released := make(chan struct{})
				var calls atomic.Int32
				o := informer.Options{ClusterID: answers("a cluster"), OpenAPIHash: answers("a schema")}
				tt.set(&o, func(context.Context) (string, error) {
					if calls.Add(1) != 2 {
						<-released
					}
					return "an answer", nil
				})
				h := &handled{}
				i, stop := runOn(t, srv, o, h)
				time.Sleep(2 * time.Minute)
				s := i.Status()
				unguarded := slices.ContainsFunc(s.Unguarded,
					func(line string) bool { return strings.Contains(line, "has not returned for") })
				if !s.Synced || s.Source != informer.Live || s.Err != nil || unguarded != tt.unguarded {
					t.Errorf("%+v", s)
				}
				if errs := h.all(); len(errs) != tt.errs || tt.errs > 0 && !errors.Is(errs[0], reflector.ErrOverdue) {
					t.Errorf("the watch error handler received %v", errs)
				}
				calls.Store(2)
				srv.disconnect()
				time.Sleep(time.Minute)
				if took := stop(); took > 5*time.Second {
					t.Errorf("the run took %v to end", took)
				}
				close(released)
				synctest.Wait()
			})
		})
	}
}

func answers(s string) func(context.Context) (string, error) {
	return func(context.Context) (string, error) { return s, nil }
}

// TestPanickingCallback checks that with utilruntime.ReallyCrash off a callback's panic counts as the callback's error.
func TestPanickingCallback(t *testing.T) {
	survivePanics(t)
	bubble(t, func(t *testing.T) {
		srv := newServer()
		srv.write("a/1", "x")
		var calls atomic.Int32
		h := &handled{}
		i, stop := runOn(t, srv, informer.Options{
			ClusterID: func(context.Context) (string, error) {
				if calls.Add(1) == 1 {
					panic("from the test")
				}
				return "a cluster", nil
			},
			OpenAPIHash: func(context.Context) (string, error) { panic("from the test") },
		}, h)
		time.Sleep(time.Minute)
		if s := i.Status(); !s.Synced || s.Err != nil || len(s.Unguarded) != 1 ||
			!strings.Contains(s.Unguarded[0], "panicked") {
			t.Errorf("%+v", s)
		}
		if errs := h.all(); len(errs) != 1 || !errors.Is(errs[0], reflector.ErrPanicked) {
			t.Errorf("the watch error handler received %v", errs)
		}
		stop()
	})
}
