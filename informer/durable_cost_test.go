package informer_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"

	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/informer/durable"
	"github.com/larder-dev/larder/store/consumer"
)

// countedCursor counts the keys of failing work that a durable handler stores with its acknowledgements.
type countedCursor struct {
	durable.Cursor
	mu    sync.Mutex
	last  map[string]uint64
	noted int // noted sums up the failing keys of all changed acknowledgements
}

func (f *countedCursor) Acknowledge(position consumer.Position, resets int) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if fmt.Sprintf("%p", f.last) != fmt.Sprintf("%p", position.Failing) {
		f.last, f.noted = position.Failing, f.noted+len(position.Failing)
	}
	return f.Cursor.Acknowledge(position, resets)
}

// TestFullDurableQueueIsNotRewrittenPerKey checks that a queue of many durable keys is not stored as a whole each time
// a key is done.
func TestFullDurableQueueIsNotRewrittenPerKey(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		const n = 3 * maxWorks
		for n := range n {
			r.srv.write(fmt.Sprint("a/", n), "x")
		}
		counted := &countedCursor{}
		i := r.open()
		informer.WrapCursors(i, func(f durable.Cursor) durable.Cursor {
			counted.Cursor = f
			return counted
		})
		q := addQueue(t, i)
		r.run()
		r.waitIdle()
		w := &queueWorker{}
		var wg sync.WaitGroup
		wg.Go(func() { w.run(q) })
		r.waitIdle()
		if got := w.take(); len(got) != n {
			t.Errorf("worked on %d of %d", len(got), n)
		}
		counted.mu.Lock()
		if counted.noted > n*manyWorks {
			t.Errorf("for %d keys %d were noted", n, counted.noted)
		}
		counted.mu.Unlock()
		r.srv.write("a/1", "y") // this change causes an acknowledgement for all keys that are done
		time.Sleep(1100 * time.Millisecond)
		synctest.Wait()
		r.close()
		q.ShutDown()
		wg.Wait()

		w = &queueWorker{}
		_, end := r.startQueue(w)
		equal(t, "after a restart", w.take(), nil)
		end()
	})
}

// TestDurableQueueWithoutWorkers checks that the full queue is logged once, and only after a minute, because a queue
// with workers may be full for a short time.
func TestDurableQueueWithoutWorkers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t)
		for n := range maxWorks + 10 {
			r.srv.write(fmt.Sprint("a/", n), "x")
		}
		var mu sync.Mutex
		stalls := 0
		logger := funcr.New(func(_, args string) {
			mu.Lock()
			defer mu.Unlock()
			if strings.Contains(args, "too many keys are not acknowledged") {
				stalls++
			}
		}, funcr.Options{})
		r.o.Logger = &logger
		i := r.open()
		q := addQueue(t, i)
		r.run()
		for _, want := range []int{0, 1, 1} {
			mu.Lock()
			if stalls != want {
				t.Errorf("logged %d times, want %d", stalls, want)
			}
			mu.Unlock()
			time.Sleep(2 * time.Minute)
			synctest.Wait()
		}
		if s := i.Status().Durable[0]; !s.Stalled {
			t.Errorf("%+v", s)
		}
		r.close()
		q.ShutDown()
	})
}
