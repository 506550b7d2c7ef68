package informer_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/informer/durable"
	"github.com/larder-dev/larder/store/consumer"
)

type durableQueue struct {
	workqueue.TypedRateLimitingInterface[cache.ObjectName]
	*durable.Keys
}

// addQueue returns a workqueue into which new durable keys of the informer are enqueued.
func addQueue(t *testing.T, i *informer.Informer) *durableQueue {
	t.Helper()
	q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[cache.ObjectName]())
	keys, err := i.Durable().AddKeys("queue", q.Add)
	if err != nil {
		t.Fatal(err)
	}
	return &durableQueue{q, keys}
}

type queueWorker struct {
	mu    sync.Mutex
	lines []string
	work  func(q *durableQueue, key string) (done bool)
}

func (w *queueWorker) take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	defer func() { w.lines = nil }()
	slices.Sort(w.lines)
	return slices.Compact(w.lines)
}

func (w *queueWorker) run(q *durableQueue) {
	for {
		key, shutdown := q.Get()
		if shutdown {
			return
		}
		w.mu.Lock()
		w.lines = append(w.lines, key.String())
		w.mu.Unlock()
		end := q.Begin(key)
		done := w.work == nil || w.work(q, key.String())
		if done {
			q.Forget(key)
		}
		q.Done(key)
		end(done)
	}
}

// startQueue runs the informer with a workqueue of durable keys and two workers. end stops all of them.
func (r *rig) startQueue(w *queueWorker) (q *durableQueue, end func()) {
	r.t.Helper()
	i := r.open()
	q = addQueue(r.t, i)
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() { w.run(q) })
	}
	r.run()
	r.waitIdle()
	return q, func() {
		r.close()
		q.ShutDown()
		wg.Wait()
	}
}

// TestDurableQueue checks that a restart enqueues exactly the keys whose work is not done or whose objects have
// changed.
func TestDurableQueue(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		for _, key := range []string{"a/1", "a/2", "a/3", "a/4"} {
			r.srv.write(key, "x")
		}
		w := &queueWorker{work: func(q *durableQueue, key string) bool {
			switch key {
			case "a/2":
				q.AddRateLimited(cache.NewObjectName("a", "2"))
				return false
			case "a/3":
				q.AddAfter(cache.NewObjectName("a", "3"), time.Hour)
				return false
			}
			return true
		}}
		q, end := r.startQueue(w)
		equal(t, "cold start", w.take(), []string{"a/1", "a/2", "a/3", "a/4"})
		if s := r.i.Status().Durable[0]; s.Failing != 2 {
			t.Errorf("status %+v", s)
		}
		if !q.HasSynced() {
			t.Error("not synced")
		}
		end()

		r.srv.write("a/4", "y")
		r.srv.delete("a/1")
		w = &queueWorker{}
		_, end = r.startQueue(w)
		equal(t, "restart", w.take(), []string{"a/1", "a/2", "a/3", "a/4"})
		end()

		r.srv.write("a/4", "z")
		w = &queueWorker{}
		_, end = r.startQueue(w)
		equal(t, "the next one", w.take(), []string{"a/4"})
		end()
	})
}

// TestDurableQueueChangesMeanwhile checks that work is due once more if the object changes during the work.
func TestDurableQueueChangesMeanwhile(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		r.srv.write("a/1", "x")
		begun, goOn := make(chan struct{}, 10), make(chan struct{})
		w := &queueWorker{work: func(*durableQueue, string) bool {
			begun <- struct{}{}
			<-goOn
			return true
		}}
		_, end := r.startQueue(w)
		<-begun
		r.srv.write("a/1", "y")
		r.waitIdle()
		goOn <- struct{}{}
		<-begun
		synctest.Wait()
		if s := r.i.Status().Durable[0]; s.Failing != 1 {
			t.Errorf("the newer state is not worked on yet, and the status says %+v", s)
		}
		close(goOn)
		r.waitIdle()
		if s := r.i.Status().Durable[0]; s.Failing != 0 {
			t.Errorf("all is done, and the status says %+v", s)
		}
		end()
	})
}

// TestDurableQueueSyncsWhenItIsFull checks that HasSynced does not wait for work on durable keys, because controllers
// start their workers only after the sync.
func TestDurableQueueSyncsWhenItIsFull(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		const n = maxWorks + 200
		for n := range n {
			r.srv.write(fmt.Sprint("a/", n), "x")
		}
		i := r.open()
		q := addQueue(t, i)
		r.run()
		r.waitIdle()
		if s := i.Status().Durable[0]; !q.HasSynced() || !s.Stalled || s.Failing != maxWorks {
			t.Errorf("synced: %v, status %+v", q.HasSynced(), s)
		}
		w := &queueWorker{}
		var wg sync.WaitGroup
		wg.Go(func() { w.run(q) })
		r.waitIdle()
		if got := w.take(); len(got) != n {
			t.Errorf("worked on %d of %d", len(got), n)
		}
		r.close()
		q.ShutDown()
		wg.Wait()
	})
}

// heldCursor is a cursor that blocks when all changes have been read, until a second after the end of the run.
type heldCursor struct {
	durable.Cursor
	held chan struct{} // held is closed when the cursor blocks
}

func (f *heldCursor) Read(
	ctx context.Context, at consumer.Position,
) (p consumer.Page, next consumer.Position, err error) {
	p, next, err = f.Cursor.Read(ctx, at)
	if err == nil && !at.Replaying && at.Seq > 0 && len(p.Changes) == 0 {
		close(f.held)
		<-ctx.Done()
		time.Sleep(time.Second)
		err = ctx.Err()
	}
	return p, next, err
}

// startHeldQueue runs the informer with a workqueue of durable keys and two workers. The durable keys process no
// acknowledgement before the end of the run. end stops all of them.
func (r *rig) startHeldQueue(w *queueWorker) (end func()) {
	r.t.Helper()
	i, held := r.open(), make(chan struct{})
	informer.WrapCursors(i, func(f durable.Cursor) durable.Cursor { return &heldCursor{Cursor: f, held: held} })
	q := addQueue(r.t, i)
	r.run()
	<-held
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() { w.run(q) })
	}
	synctest.Wait()
	return func() {
		r.close()
		q.ShutDown()
		wg.Wait()
	}
}

// TestDurableQueueDoneAtTheEnd checks an acknowledgement that the informer could not process before the end of the run.
func TestDurableQueueDoneAtTheEnd(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		for _, key := range []string{"a/1", "a/2", "a/3"} {
			r.srv.write(key, "x")
		}
		w := &queueWorker{work: func(_ *durableQueue, key string) bool { return key != "a/2" }}
		end := r.startHeldQueue(w)
		equal(t, "at first", w.take(), []string{"a/1", "a/2", "a/3"})
		end()

		w = &queueWorker{}
		_, end = r.startQueue(w)
		equal(t, "after a restart", w.take(), []string{"a/2"})
		end()
	})
}

// TestDurableQueueDoneAfterTheEnd checks that an acknowledgement after the end of the run is ignored, because a stopped
// worker may return without having done the work.
func TestDurableQueueDoneAfterTheEnd(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		for _, key := range []string{"a/1", "a/2"} {
			r.srv.write(key, "x")
		}
		stopped := make(chan struct{})
		w := &queueWorker{work: func(_ *durableQueue, key string) bool {
			if key == "a/2" {
				<-stopped
			}
			return true
		}}
		end := r.startHeldQueue(w)
		time.AfterFunc(500*time.Millisecond, func() { close(stopped) })
		end()

		w = &queueWorker{}
		_, end = r.startQueue(w)
		equal(t, "after a restart", w.take(), []string{"a/2"})
		end()
	})
}
