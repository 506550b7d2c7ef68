package durable

import (
	"sync"
	"time"

	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

// Queue is a client-go work queue to which a durable handler adds keys; see Handlers.AddQueue.
type Queue struct {
	workqueue.TypedRateLimitingInterface[cache.ObjectName]
	*Keys

	mu   sync.Mutex
	work map[cache.ObjectName]*queuedWork // guarded by mu; the keys between Get and Done
}

// queuedWork is a key that is being worked on.
type queuedWork struct {
	end    func(done bool)
	forgot bool
	again  bool
}

// AddQueue registers a durable handler that adds the key of each change to the queue. Workers use the returned Queue in
// place of queue, as controllers do: Get, then Forget if the work is done or AddRateLimited if it has failed, then
// Done. A key is done, and does not come again after a restart, if Forget was called between Get and Done, Done before
// the end of the informer's run, and the key was not added again. A key that was added with AddAfter stays due, and
// comes at once after a restart. Keys of deleted objects come too; the indexer does not have them. AddQueue fails as
// Add does.
func (s *Handlers) AddQueue(name string, queue workqueue.TypedRateLimitingInterface[cache.ObjectName]) (*Queue, error) {
	keys, err := s.AddKeys(name, queue.Add)
	if err != nil {
		return nil, err
	}
	return &Queue{TypedRateLimitingInterface: queue, Keys: keys, work: map[cache.ObjectName]*queuedWork{}}, nil
}

// Get returns the next key; see workqueue.TypedInterface.
func (q *Queue) Get() (key cache.ObjectName, shutdown bool) {
	key, shutdown = q.TypedRateLimitingInterface.Get()
	if shutdown {
		return key, true
	}
	end := q.Begin(key)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.work[key] = &queuedWork{end: end}
	return key, false
}

// Forget marks the work on the key as done, or given up; see workqueue.TypedRateLimitingInterface.
func (q *Queue) Forget(key cache.ObjectName) {
	q.note(key, func(w *queuedWork) { w.forgot = true })
	q.TypedRateLimitingInterface.Forget(key)
}

// Done ends the work on the key that Get returned.
func (q *Queue) Done(key cache.ObjectName) {
	q.mu.Lock()
	w := q.work[key]
	delete(q.work, key)
	q.mu.Unlock()
	q.TypedRateLimitingInterface.Done(key)
	if w != nil {
		w.end(w.forgot && !w.again)
	}
}

// Add adds the key again.
func (q *Queue) Add(key cache.ObjectName) {
	q.note(key, func(w *queuedWork) { w.again = true })
	q.TypedRateLimitingInterface.Add(key)
}

// AddRateLimited adds the key again after the rate limiter's delay.
func (q *Queue) AddRateLimited(key cache.ObjectName) {
	q.note(key, func(w *queuedWork) { w.again = true })
	q.TypedRateLimitingInterface.AddRateLimited(key)
}

// AddAfter adds the key again after the duration.
func (q *Queue) AddAfter(key cache.ObjectName, after time.Duration) {
	q.note(key, func(w *queuedWork) { w.again = true })
	q.TypedRateLimitingInterface.AddAfter(key, after)
}

func (q *Queue) note(key cache.ObjectName, what func(w *queuedWork)) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if w := q.work[key]; w != nil {
		what(w)
	}
}
