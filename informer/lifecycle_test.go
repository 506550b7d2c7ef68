package informer_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/store"
)

func TestRemoveHandler(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.srv.write("a/1", "x")
		h, other := &recorder{}, &recorder{}
		i := r.open()
		reg, err := i.AddEventHandler(h)
		if err != nil {
			t.Fatal(err)
		}
		r.run(other)
		for range 2 { // removing a registration twice is allowed
			if err := i.RemoveEventHandler(reg); err != nil {
				t.Fatal(err)
			}
		}
		h.take()
		other.take()
		r.srv.write("a/2", "x")
		synctest.Wait()
		equal(t, "removed", h.take(), nil)
		equal(t, "other", other.take(), []string{"add a/2@102=x"})

		foreign := newRig(t)
		foreignReg, err := foreign.open().AddEventHandler(h)
		if err != nil {
			t.Fatal(err)
		}
		if err := i.RemoveEventHandler(foreignReg); err != nil {
			t.Errorf("a registration with another informer: %v", err)
		}
		foreign.run()
		r.srv.write("a/3", "x")
		foreign.srv.write("f/1", "x")
		synctest.Wait()
		if n := len(h.take()); n != 1 {
			t.Errorf("the foreign registration was removed by the wrong informer: %d calls", n)
		}
		foreign.close()
		if err := i.RemoveEventHandler(nil); err == nil {
			t.Error("removing nil is no error")
		}
		r.close()
		if err := i.RemoveEventHandler(reg); err != nil {
			t.Errorf("after the stop: %v", err)
		}
	})
}

func TestOneHandlerTwice(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		h := &recorder{}
		i := r.open()
		reg, err := i.AddEventHandler(h)
		if err != nil {
			t.Fatal(err)
		}
		r.run(h)
		r.srv.write("a/1", "x")
		synctest.Wait()
		equal(t, "twice", h.take(), []string{"add a/1@101=x", "add a/1@101=x"})
		if err := i.RemoveEventHandler(reg); err != nil {
			t.Fatal(err)
		}
		r.srv.write("a/1", "y")
		synctest.Wait()
		equal(t, "once", h.take(), []string{"update a/1@101=x to a/1@102=y"})
		r.close()
	})
}

// TestShutDownEventHandler checks that cache.ShutDownEventHandler waits for the running call, but not for queued calls.
func TestShutDownEventHandler(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		release := make(chan struct{})
		h := &recorder{hook: func(string) { <-release }}
		i := r.open()
		never, err := i.AddEventHandler(&recorder{})
		if err != nil {
			t.Fatal(err)
		}
		if err := cache.ShutDownEventHandler(i, never); err != nil {
			t.Fatalf("before the start: %v", err)
		}
		reg, err := i.AddEventHandler(h)
		if err != nil {
			t.Fatal(err)
		}
		r.run()
		r.srv.write("a/1", "x")
		r.srv.write("a/2", "x")
		synctest.Wait()
		shut := make(chan error, 1)
		go func() { shut <- cache.ShutDownEventHandler(i, reg) }()
		synctest.Wait()
		if len(shut) != 0 {
			t.Fatal("did not wait for the call that is being made")
		}
		close(release)
		if err := <-shut; err != nil {
			t.Fatal(err)
		}
		equal(t, "calls", h.take(), []string{"add a/1@101=x"})
		if err := cache.ShutDownEventHandler(i, reg); err != nil {
			t.Errorf("again: %v", err)
		}
		r.close()
		if err := cache.ShutDownEventHandler(i, reg); err != nil {
			t.Errorf("after the stop: %v", err)
		}
	})
}

func TestStopped(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.srv.write("a/1", "x")
		h := &recorder{}
		i := r.start(h)
		if i.IsStopped() {
			t.Fatal("stopped while it runs")
		}
		second := make(chan struct{})
		go func() {
			defer close(second)
			i.Run(nil)
		}()
		<-second // the second Run is refused, and so returns immediately
		if err := i.SetTransform(nil); err == nil {
			t.Error("SetTransform after the start")
		}
		if err := i.SetWatchErrorHandler(func(*cache.Reflector, error) {}); err == nil {
			t.Error("SetWatchErrorHandler after the start")
		}
		r.stop()
		if !i.IsStopped() || !i.HasSynced() {
			t.Errorf("IsStopped %v, HasSynced %v", i.IsStopped(), i.HasSynced())
		}
		if _, err := i.AddEventHandler(h); err == nil {
			t.Error("a handler was added after the stop")
		}
		if err := i.AddIndexers(cache.Indexers{"late": cache.MetaNamespaceIndexFunc}); err == nil {
			t.Error("an indexer was added after the stop")
		}
		i.RunWithContext(context.Background())
		equal(t, "the store can still be read", r.stored(), r.srv.state())
		r.close()
	})
}

// TestReplaceInformer checks that New succeeds on the collection of an informer that is about to end, even if a handler
// is slow. While that informer runs, New fails immediately.
func TestReplaceInformer(t *testing.T) {
	inContext := func(i *informer.Informer) (run, end func()) {
		ctx, cancel := context.WithCancel(context.Background())
		return func() { i.RunWithContext(ctx) }, cancel
	}
	for name, runs := range map[string]func(i *informer.Informer) (run, end func()){
		"the context ends": inContext,
		"the channel closes": func(i *informer.Informer) (run, end func()) {
			stopCh := make(chan struct{})
			return func() { i.Run(stopCh) }, func() { close(stopCh) }
		},
		"closed, and then the context ends": func(i *informer.Informer) (run, end func()) {
			run, cancel := inContext(i)
			return run, func() {
				time.AfterFunc(time.Second, cancel)
				if err := i.Close(); err != nil {
					t.Error(err)
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t)
				r.srv.write("a/1", "x")
				busy := make(chan struct{})
				i := r.open()
				if _, err := i.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(any) { <-busy }}); err != nil {
					t.Fatal(err)
				}
				run, end := runs(i)
				ended := make(chan struct{})
				go func() { defer close(ended); run() }()
				synctest.Wait()
				begun := time.Now()
				other := informer.OptionsOf(i)
				// With a different option, the new informer cannot share the first informer's collection.
				other.AuditEvery = time.Hour
				if _, err := informer.New(r.srv, &corev1.Pod{}, other); !errors.Is(err, store.ErrCollectionOpen) ||
					time.Since(begun) > 0 {
					t.Errorf("while the other runs: %v after %v", err, time.Since(begun))
				}
				end()
				next, err := informer.New(r.srv, &corev1.Pod{}, informer.OptionsOf(i))
				if err != nil {
					t.Fatal(err)
				}
				h := &recorder{}
				r.i = next
				r.run(h)
				equal(t, "handler", h.take(), []string{"add a/1@101=x initial"})
				if cache.IsDone(doneChannel(ended)) {
					t.Error("the first has ended")
				}
				close(busy)
				<-ended
				r.close()
			})
		})
	}
}

type deaf struct {
	*server
	held     atomic.Int32
	released chan struct{}
}

func (d *deaf) ListWithContext(_ context.Context, o metav1.ListOptions) (runtime.Object, error) {
	if o.Continue != "" {
		d.held.Add(1)
		<-d.released
	}
	return d.List(o)
}

func (d *deaf) WatchWithContext(context.Context, metav1.ListOptions) (watch.Interface, error) {
	d.held.Add(1)
	<-d.released
	return watch.NewFake(), nil
}

func TestReplaceInformerWithADeafListerWatcher(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.o.PageSize = 1
		r.srv.write("a/1", "x")
		r.srv.write("a/2", "x")
		i := r.open()
		d := &deaf{server: r.srv, released: make(chan struct{})}
		informer.SetListerWatcher(i, d)
		r.run()
		time.Sleep(time.Minute)
		if n := d.held.Load(); n != 2 {
			t.Fatalf("%d requests wait, want a page and a watch", n)
		}
		ended := r.done
		r.cancel()
		next, err := informer.New(r.srv, &corev1.Pod{}, informer.OptionsOf(i))
		if err != nil {
			t.Fatal(err)
		}
		<-ended
		close(d.released)
		if err := next.Close(); err != nil {
			t.Fatal(err)
		}
		r.close()
	})
}

// TestReplaceInformerThatDoesNotEnd checks that New waits only for a limited time, and that the error says so.
func TestReplaceInformerThatDoesNotEnd(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		i := r.start()
		if err := i.Close(); err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		_, err := informer.New(r.srv, &corev1.Pod{}, informer.OptionsOf(i))
		if !errors.Is(err, store.ErrCollectionOpen) || !strings.Contains(err.Error(), "is about to close it") ||
			time.Since(begun) != openWait {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
		r.close()
	})
}

// TestClose checks that Close prevents the run of an informer that was never run, and does not end a running informer.
func TestClose(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.srv.write("a/1", "x")
		r.start()
		r.close()
		unused := r.open()
		if _, err := unused.AddEventHandler(&recorder{}); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := unused.Close(); err != nil {
				t.Fatal(err)
			}
		}
		next, err := informer.New(r.srv, &corev1.Pod{}, informer.OptionsOf(unused))
		if err != nil {
			t.Fatal(err)
		}
		unused.RunWithContext(t.Context())
		if _, err := unused.AddEventHandler(&recorder{}); err == nil || !unused.IsStopped() || unused.HasSynced() {
			t.Errorf("closed: stopped %v, synced %v, a handler was added with error %v", unused.IsStopped(), unused.HasSynced(),
				err)
		}
		equal(t, "the store can still be read", r.stored(), r.srv.state())
		r.i = next
		r.run()
		if err := next.Close(); err != nil || next.IsStopped() {
			t.Errorf("Close of one that runs: stopped %v, %v", next.IsStopped(), err)
		}
		r.srv.write("a/2", "x")
		synctest.Wait()
		equal(t, "it goes on", r.stored(), r.srv.state())
		r.close()
	})
}

type doneChannel <-chan struct{}

func (doneChannel) Name() string            { return "run" }
func (d doneChannel) Done() <-chan struct{} { return d }

// TestNewOnAReadOnlyStore checks that New fails on a read-only store, where a run would retry its writes endlessly.
func TestNewOnAReadOnlyStore(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.srv.write("a/1", "x")
		r.start()
		r.close()
		st, err := store.Open(r.path, store.Options{ReadOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		defer st.Close()
		i, err := informer.New(r.srv, &corev1.Pod{}, informer.Options{Store: st, Identity: podsIdentity})
		if !errors.Is(err, store.ErrReadOnly) {
			t.Errorf("new: %v", err)
		}
		if err == nil {
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			i.RunWithContext(ctx)
			t.Errorf("it ran for an hour: %v", i.Status().Err)
		}
	})
}

// TestNewOnAClosedStore checks that New fails immediately, even if the closed store has an unclosed informer.
func TestNewOnAClosedStore(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		i := r.open()
		if err := r.st.Close(); err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		_, err := informer.New(r.srv, &corev1.Pod{}, informer.OptionsOf(i))
		if !errors.Is(err, store.ErrClosed) || !time.Now().Equal(begun) {
			t.Errorf("after %v: %v", time.Since(begun), err)
		}
		if err := i.Close(); err != nil {
			t.Errorf("close the other: %v", err)
		}
	})
}
