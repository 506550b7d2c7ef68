package informer_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/internal/hook"
	"github.com/larder-dev/larder/store"
)

func newGatedRig(t *testing.T) (*rig, *hook.Gate) {
	r, g := newRig(t), &hook.Gate{}
	r.so.Hooks = &hook.Hooks{Commit: g.Commit}
	return r, g
}

// endHung ends the run and closes the store while a commit hangs. It returns the duration of both steps.
func (r *rig) endHung() (run, file time.Duration) {
	r.t.Helper()
	begun := time.Now()
	r.stop()
	run = time.Since(begun)
	begun = time.Now()
	if err := r.st.Close(); !errors.Is(err, store.ErrStillWriting) {
		r.t.Errorf("close the store: %v", err)
	}
	return run, time.Since(begun)
}

// goesOnAfter lets the hanging commit return, starts a new run, and checks the stored objects and the number of lists.
func (r *rig) goesOnAfter(release func(), lists int) {
	r.t.Helper()
	release()
	synctest.Wait()
	before, _ := r.srv.requests()
	r.start()
	if n, _ := r.srv.requests(); n-before != lists {
		r.t.Errorf("the next start has listed %d times, want %d", n-before, lists)
	}
	equal(r.t, "what is stored", r.stored(), r.srv.state())
	r.close()
}

// TestStopWhileTheDiskHangs checks that a run and its store end within the 30 s that Kubernetes gives a pod.
func TestStopWhileTheDiskHangs(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r, g := newGatedRig(t)
		r.srv.write("a/1", "x")
		r.start()
		entered, release := g.Hold()
		r.srv.write("a/2", "x")
		<-entered
		if run, file := r.endHung(); run != 10*time.Second || file != 10*time.Second {
			t.Errorf("the run has taken %v to end, the store %v", run, file)
		}
		r.goesOnAfter(release, 0)
	})
}

// TestStopWhileAListHangs checks the end of a run while the commit of a list hangs and a handler is being added.
func TestStopWhileAListHangs(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r, g := newGatedRig(t)
		for n := range 5 {
			r.srv.write(fmt.Sprintf("a/%d", n), "x")
		}
		r.start()
		informer.SetPages(r.i, 1)
		called, behind := make(chan struct{}, 10), make(chan struct{})
		if _, err := r.i.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: func(any) { called <- struct{}{}; <-behind }}); err != nil {
			t.Fatal(err)
		}
		<-called
		synctest.Wait()
		if err := r.st.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		entered, release := g.Hold()
		r.srv.setFail(func(string, metav1.ListOptions) error { return errors.New("from the test") })
		r.srv.disconnect()
		r.srv.write("a/1", "y")
		r.srv.compact()
		r.srv.setFail(nil)
		<-entered
		close(behind)
		added := make(chan error, 1)
		go func() {
			_, err := r.i.AddEventHandler(&recorder{})
			added <- err
		}()
		synctest.Wait()
		if _, err := r.i.Reader().List(t.Context()); err != nil {
			t.Errorf("a read meanwhile: %v", err)
		}
		if run, file := r.endHung(); run != 10*time.Second || file != 10*time.Second {
			t.Errorf("the run has taken %v to end, the store %v", run, file)
		}
		if err := <-added; err != nil {
			t.Errorf("a handler that was added meanwhile: %v", err)
		}
		begun := time.Now()
		if _, err := informer.New(r.srv, &corev1.Pod{}, informer.OptionsOf(r.i)); err == nil || time.Since(begun) > 0 {
			t.Errorf("another informer on the collection: %v after %v", err, time.Since(begun))
		}
		r.goesOnAfter(release, 0)
	})
}

// TestHungCommit checks that reads, events, late handlers and resyncs continue while a commit hangs. The status and the
// watch error handler report it. Then nothing is lost or delivered twice.
func TestHungCommit(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r, g := newGatedRig(t)
		r.srv.write("a/1", "x")
		r.o.ResyncPeriod = 10 * time.Second
		var mu sync.Mutex
		var reported []error
		h := &recorder{}
		i := r.open()
		if err := i.SetWatchErrorHandler(func(_ *cache.Reflector, err error) {
			mu.Lock()
			defer mu.Unlock()
			reported = append(reported, err)
		}); err != nil {
			t.Fatal(err)
		}
		r.run(h)
		entered, release := g.Hold()
		r.srv.write("a/2", "x")
		<-entered
		h.take()
		r.srv.write("a/1", "y")
		r.srv.write("a/3", "x")
		r.srv.delete("a/2")
		synctest.Wait()
		equal(t, "calls", h.take(), []string{"update a/1@101=x to a/1@103=y", "add a/3@104=x", "delete a/2@105=x"})
		equal(t, "reads", r.stored(), r.srv.state())
		late := &recorder{}
		if _, err := i.AddEventHandler(late); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		equal(t, "a late handler", late.take(), []string{"add a/1@103=y initial", "add a/3@104=x initial"})
		if s := i.Status(); s.Err != nil || s.Source != informer.Live {
			t.Errorf("at first: %+v", s)
		}
		time.Sleep(30 * time.Second)
		synctest.Wait()
		if resyncs := h.take(); len(resyncs) < 4 || !strings.HasPrefix(resyncs[0], "update a/1@103=y to a/1@103=y") {
			t.Errorf("resyncs: %q", resyncs)
		}
		s := i.Status()
		if !errors.Is(s.Err, store.ErrSlowDisk) || s.Source != informer.Live || s.ResourceVersion != "105" {
			t.Errorf("status: %+v", s)
		}
		release()
		synctest.Wait()
		if s := i.Status(); s.Err != nil {
			t.Errorf("afterwards: %v", s.Err)
		}
		mu.Lock()
		defer mu.Unlock()
		if len(reported) != 1 || !errors.Is(reported[0], store.ErrSlowDisk) {
			t.Errorf("the watch error handler got %v, want one ErrSlowDisk", reported)
		}
		late.take()
		r.srv.write("a/3", "y")
		synctest.Wait()
		equal(t, "the late handler", late.take(), []string{"update a/3@104=x to a/3@106=y"})
		if err := r.st.Flush(context.Background()); err != nil {
			t.Error(err)
		}
		r.close()
		before, _ := r.srv.requests()
		again := &recorder{}
		r.start(again)
		if n, _ := r.srv.requests(); n != before {
			t.Errorf("the next start has listed %d times", n-before)
		}
		equal(t, "what the next start replays", again.take(), []string{"add a/1@103=y initial", "add a/3@106=y initial"})
		r.close()
	})
}

// beside runs another informer on the rig's store, for another resource of a server of its own.
func (r *rig) beside(resource string, srv *server, handlers ...cache.ResourceEventHandler) (i *informer.Informer,
	stop func()) {
	r.t.Helper()
	o := informer.OptionsOf(r.i)
	o.Identity = entry.Identity{GroupVersionResource: corev1.SchemeGroupVersion.WithResource(resource)}
	i, err := informer.New(srv, &corev1.Pod{}, o)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, h := range handlers {
		if _, err := i.AddEventHandler(h); err != nil {
			r.t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		i.RunWithContext(ctx)
	}()
	return i, func() {
		cancel()
		<-done
	}
}

// TestHungCommitAtTheDirtyLimit checks that only the informer with too many uncommitted changes waits for a hanging
// commit. A quiet informer continues. An informer that lists delivers its list, but does not sync before the list is
// committed.
func TestHungCommitAtTheDirtyLimit(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r, g := newGatedRig(t)
		r.so.Hooks.DirtyLimit = 8 << 20
		busy, calm, listing := &recorder{}, &recorder{}, &recorder{}
		r.start(busy)
		calmServer, listServer := newServer(), newServer()
		calmServer.write("a/1", "x")
		listServer.write("a/1", "x")
		listServer.setFail(func(string, metav1.ListOptions) error { return errors.New("from the test") })
		quiet, stopQuiet := r.beside("quiets", calmServer, calm)
		lister, stopLister := r.beside("lists", listServer, listing)
		synctest.Wait()
		entered, release := g.Hold()
		r.srv.write("a/0", "x")
		<-entered
		listServer.setFail(nil)
		const objects = 5000
		for n := range objects {
			r.srv.write(fmt.Sprintf("a/%05d", n), large(n))
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if s := r.i.Status(); s.Pending == 0 || !errors.Is(s.Err, store.ErrSlowDisk) || r.st.Pending() < 8<<20 {
			t.Errorf("the busy one does not wait: %+v, %d bytes pending", s, r.st.Pending())
		}
		calm.take()
		calmServer.write("a/1", "y")
		calmServer.write("a/2", "x")
		synctest.Wait()
		equal(t, "the quiet one", calm.take(), []string{"update a/1@101=x to a/1@102=y", "add a/2@103=x"})
		if s := quiet.Status(); s.Pending != 0 || s.Objects != 2 {
			t.Errorf("the quiet one waits: %+v", s)
		}
		equal(t, "the list", listing.take(), []string{"add a/1@101=x initial"})
		if lister.HasSynced() {
			t.Error("a list that is not in the file has synced")
		}
		release()
		time.Sleep(time.Minute)
		synctest.Wait()
		if calls := busy.take(); len(calls) != objects+1 {
			t.Errorf("the busy handler received %d changes, want %d", len(calls), objects+1)
		}
		equal(t, "what the busy one has", r.stored(), r.srv.state())
		if !lister.HasSynced() || len(listing.take()) > 0 {
			t.Error("the list has not synced, or was notified twice")
		}
		if n := r.st.Pending(); n != 0 {
			t.Errorf("%d bytes are pending at the end", n)
		}
		stopQuiet()
		stopLister()
		r.close()
	})
}

// TestHandlersWhileAnApplyIsDue checks that the process loop waits for a commit before it takes deltasMu, and not while
// it holds deltasMu, although other informers have made too many uncommitted changes meanwhile.
func TestHandlersWhileAnApplyIsDue(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r, g := newGatedRig(t)
		r.so.CommitBytes = 10_000
		r.srv.write("a/1", "x")
		h := &recorder{}
		r.start(h)
		if err := r.st.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		h.take()
		other := r.i.Identity()
		other.Resource = "others"
		codec, err := codec.For(&corev1.Pod{})
		if err != nil {
			t.Fatal(err)
		}
		c, err := r.st.Collection(t.Context(), other, store.CollectionOptions{Codec: codec})
		if err != nil {
			t.Fatal(err)
		}
		entered, release := g.Hold()
		informer.Deltas(r.i).Lock()
		r.srv.write("a/1", "y")
		synctest.Wait()
		var b entry.Batch
		for n := range 200 {
			meta := metav1.ObjectMeta{Namespace: "b", Name: fmt.Sprint(n), ResourceVersion: "1"}
			b.Ops = append(b.Ops, entry.Op{Object: &corev1.Pod{ObjectMeta: meta}})
		}
		if _, err := c.Apply(t.Context(), b); err != nil || r.st.Pending() < 40_000 {
			t.Fatalf("%d bytes are pending, %v", r.st.Pending(), err)
		}
		<-entered
		informer.Deltas(r.i).Unlock()
		begun := time.Now()
		if _, err := r.i.AddEventHandler(&recorder{}); err != nil || time.Since(begun) > 0 {
			t.Errorf("a handler was added after %v, %v", time.Since(begun), err)
		}
		synctest.Wait()
		equal(t, "calls meanwhile", h.take(), []string{"update a/1@101=x to a/1@102=y"})
		release()
		synctest.Wait()
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		r.close()
	})
}
