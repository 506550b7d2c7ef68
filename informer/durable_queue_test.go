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

// durableQueue is a work queue that durable keys feed.
type durableQueue struct {
	workqueue.TypedRateLimitingInterface[cache.ObjectName]
	*durable.Keys
}

// addQueue registers durable keys that feed a new queue.
func addQueue(t *testing.T, i *informer.Informer) *durableQueue {
	t.Helper()
	q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[cache.ObjectName]())
	keys, err := i.Durable().AddKeys("queue", q.Add)
	if err != nil {
		t.Fatal(err)
	}
	return &durableQueue{q, keys}
}

// queueWorker works on a queue as controllers do.
type queueWorker struct {
	mu    sync.Mutex
	lines []string // guarded by mu
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

// startQueue runs the informer with a queue and a worker; the returned function ends both.
func (r *rig) startQueue(w *queueWorker) (q *durableQueue, end func()) {
	r.t.Helper()
	i := r.open()
	q = addQueue(r.t, i)
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() { w.run(q) })
	}
	r.run()
	r.settle()
	return q, func() {
		r.close()
		q.ShutDown()
		wg.Wait()
	}
}

// A restart brings the keys whose work is not done, and those that have changed, and no others.
func TestDurableQueue(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		for _, key := range []string{"a/1", "a/2", "a/3", "a/4"} {
			r.srv.write(key, "x")
		}
		w := &queueWorker{work: func(q *durableQueue, key string) bool {
			switch key {
			case "a/2": // fails
				q.AddRateLimited(cache.NewObjectName("a", "2"))
				return false
			case "a/3": // is looked at again in an hour
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

// A change that comes while its key is being worked on is not done with that.
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
		r.settle() // it is told, and waits in the queue
		goOn <- struct{}{}
		<-begun
		synctest.Wait()
		if s := r.i.Status().Durable[0]; s.Failing != 1 {
			t.Errorf("the newer state is not worked on yet, and the status says %+v", s)
		}
		close(goOn)
		r.settle()
		if s := r.i.Status().Durable[0]; s.Failing != 0 {
			t.Errorf("all is done, and the status says %+v", s)
		}
		end()
	})
}

// Controllers begin to work once their sources have synced, so that must not wait for work to be done.
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
		r.settle()
		if s := i.Status().Durable[0]; !q.HasSynced() || !s.Stalled || s.Failing != maxWorks {
			t.Errorf("synced: %v, status %+v", q.HasSynced(), s)
		}
		w := &queueWorker{}
		var wg sync.WaitGroup
		wg.Go(func() { w.run(q) })
		r.settle()
		if got := w.take(); len(got) != n {
			t.Errorf("worked on %d of %d", len(got), n)
		}
		r.close()
		q.ShutDown()
		wg.Wait()
	})
}

// heldCursor holds when what has changed has been read, until a second after the end of the run.
type heldCursor struct {
	durable.Cursor
	held chan struct{} // closed when it holds
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

// startHeldQueue runs the informer with a queue whose handler takes no answer until the end of the run, and two
// workers; the returned function ends all.
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

// What was done before the end of the run is done, though the handler had something else to do until then.
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

// Who is told to stop may say that all is done and have done nothing: what is said after the end of the run is not
// taken for an answer.
func TestDurableQueueSaysDoneAfterTheEnd(t *testing.T) {
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
		time.AfterFunc(500*time.Millisecond, func() { close(stopped) }) // while the informer ends
		end()

		w = &queueWorker{}
		_, end = r.startQueue(w)
		equal(t, "after a restart", w.take(), []string{"a/2"})
		end()
	})
}
