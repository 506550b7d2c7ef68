package fifo

import (
	"context"
	"errors"
	"sync"

	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/buffer"
)

// ErrNotAcked is returned by Pop while the previous batch has not been acknowledged.
var ErrNotAcked = errors.New("fifo: the last batch has not been acknowledged; call Batch.Ack first")

// The defaults of Options and Limits.
const (
	DefaultMaxCount   = 8192
	DefaultMaxBytes   = 64 << 20
	DefaultBatchCount = 1024
	DefaultBatchBytes = 8 << 20
)

// Options are the options of New. The zero value works.
type Options struct {
	// MaxCount is the maximum number of objects in the queue. Default DefaultMaxCount. An empty queue accepts a delta that
	// exceeds MaxCount or MaxBytes.
	MaxCount int
	// MaxBytes is the maximum sum of Delta.Bytes in the queue. Default DefaultMaxBytes.
	MaxBytes int64
}

// Limits bound one batch. The zero value works. A batch has at least one delta, whatever its size.
type Limits struct {
	// Count is the maximum number of deltas. Default DefaultBatchCount.
	Count int
	// Bytes is the maximum sum of Delta.Bytes. Default DefaultBatchBytes.
	Bytes int64
}

// Queue is an ordered, bounded queue of deltas, for one producer and one consumer. Its methods may be called from any
// goroutine.
type Queue struct {
	o Options

	mu     sync.Mutex
	cond   sync.Cond                        // Push, Batch.Ack, Close and the end of a waiter's ctx broadcast on cond.
	items  *buffer.TypedRingGrowing[*Delta] // mu guards items, the deltas between Push and Pop.
	next   *Delta                           // mu guards next, the first delta after a peekLocked, or nil.
	out    *Batch                           // mu guards out, the popped batch until its Ack, or nil.
	count  int                              // mu guards count, the sum of the objects in items, next and out.
	bytes  int64                            // mu guards bytes, the sum of Delta.Bytes in items, next and out.
	closed bool                             // mu guards closed, which is true after Close.
}

// New returns an empty queue.
func New(o Options) *Queue {
	if o.MaxCount <= 0 {
		o.MaxCount = DefaultMaxCount
	}
	if o.MaxBytes <= 0 {
		o.MaxBytes = DefaultMaxBytes
	}
	q := &Queue{
		o:     o,
		items: buffer.NewTypedRingGrowing[*Delta](buffer.RingGrowingOptions{InitialSize: 64}),
	}
	q.cond.L = &q.mu
	return q
}

// Push appends d. It blocks while the queue is full. If Push returns an error, d is not in the queue: the cause of ctx
// if ctx ends first, or cache.ErrFIFOClosed if the queue is closed.
func (q *Queue) Push(ctx context.Context, d Delta) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	err := q.waitLocked(ctx, func() bool { return q.closed || q.fitsLocked(&d) })
	if err != nil {
		return err
	}
	if q.closed {
		return cache.ErrFIFOClosed
	}
	q.count += d.count()
	q.bytes += d.Bytes
	q.items.WriteOne(&d)
	q.cond.Broadcast()
	return nil
}

// Pop takes the next batch. It blocks while the queue is empty. It returns the cause of ctx if ctx ends first,
// cache.ErrFIFOClosed once the queue is closed and empty, or ErrNotAcked.
func (q *Queue) Pop(ctx context.Context, l Limits) (*Batch, error) {
	if l.Count <= 0 {
		l.Count = DefaultBatchCount
	}
	if l.Bytes <= 0 {
		l.Bytes = DefaultBatchBytes
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.out != nil {
		return nil, ErrNotAcked
	}
	err := q.waitLocked(ctx, func() bool { return q.closed || q.peekLocked() != nil })
	if err != nil {
		return nil, err
	}
	if q.out != nil { // Another consumer popped a batch while this call waited.
		return nil, ErrNotAcked
	}
	if q.peekLocked() == nil {
		return nil, cache.ErrFIFOClosed
	}
	q.out = q.takeLocked(l)
	return q.out, nil
}

// WaitIdle blocks until every pushed delta has been acknowledged. It returns the cause of ctx if ctx ends first, or
// cache.ErrFIFOClosed if the queue is closed with unacknowledged deltas.
func (q *Queue) WaitIdle(ctx context.Context) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := q.waitLocked(ctx, func() bool { return q.closed || q.count == 0 }); err != nil {
		return err
	}
	if q.count != 0 {
		return cache.ErrFIFOClosed
	}
	return nil
}

// Close makes every Push fail, including blocked ones. Deltas in the queue can still be popped.
func (q *Queue) Close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.cond.Broadcast()
}

// Len returns the number of objects in the queue and in a batch that is not acknowledged.
func (q *Queue) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.count
}

// waitLocked blocks until ready returns true, and then returns nil, or until ctx ends, and then returns its cause. It
// calls ready with mu held and releases mu while it waits.
func (q *Queue) waitLocked(ctx context.Context, ready func() bool) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if ready() {
		return nil
	}
	stop := context.AfterFunc(ctx, func() {
		q.mu.Lock() // Without mu, the broadcast could precede cond.Wait and be missed.
		defer q.mu.Unlock()
		q.cond.Broadcast()
	})
	defer stop()
	for !ready() {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		q.cond.Wait()
	}
	return nil
}

func (q *Queue) fitsLocked(d *Delta) bool {
	if q.count == 0 {
		return true
	}
	return q.count+d.count() <= q.o.MaxCount && q.bytes+d.Bytes <= q.o.MaxBytes
}

func (q *Queue) peekLocked() *Delta {
	if q.next == nil {
		q.next, _ = q.items.ReadOne()
	}
	return q.next
}

// takeLocked moves the longest possible prefix of the queue into a batch: batchable deltas within l, or a single delta.
func (q *Queue) takeLocked(l Limits) *Batch {
	b := &Batch{queue: q}
	for d := q.peekLocked(); d != nil; d = q.peekLocked() {
		first := len(b.Deltas) == 0
		if !first && (!Batchable(d.Type) || len(b.Deltas) >= l.Count || b.bytes+d.Bytes > l.Bytes) {
			break
		}
		q.next = nil
		b.Deltas = append(b.Deltas, *d)
		b.count += d.count()
		b.bytes += d.Bytes
		if !Batchable(d.Type) {
			break
		}
	}
	return b
}

// Types of deltas that client-go does not have. client-go's types keep their meaning: Added, Updated, Deleted,
// Bookmark, SyncAll, and Replaced, which here carries one page of a list.
const (
	// ReplaceStarted begins a list.
	ReplaceStarted cache.DeltaType = "ReplaceStarted"
	// ReplacedByRef is one page of a list, as references to its objects.
	ReplacedByRef cache.DeltaType = "ReplacedByRef"
	// ReplaceFinished ends a list. The pages and changes since ReplaceStarted are the server's whole state.
	ReplaceFinished cache.DeltaType = "ReplaceFinished"
	// ReplaceAborted discards the pages since ReplaceStarted.
	ReplaceAborted cache.DeltaType = "ReplaceAborted"
	// LeftOut is a refused object. Only the refusal is stored.
	LeftOut cache.DeltaType = "LeftOut"
	// Drained means that the preceding deltas contain the server's whole state at the time of the last connect.
	Drained cache.DeltaType = "Drained"
)

// Delta is one step of the stream from the reflector.
type Delta struct {
	cache.Delta
	// ResourceVersion is the stream's resourceVersion after this delta. Empty if the delta does not change it.
	ResourceVersion string
	// Count is the number of objects in the delta. Default 1.
	Count int
	// Bytes is the approximate memory that the delta holds. Default 0.
	Bytes int64
}

func (d *Delta) count() int {
	if d.Count <= 0 {
		return 1
	}
	return d.Count
}

// Batchable reports whether deltas of type t may share a batch with other deltas.
func Batchable(t cache.DeltaType) bool {
	switch t {
	case cache.Added, cache.Updated, cache.Deleted, cache.Bookmark, LeftOut:
		return true
	}
	return false
}

// Batch is the result of one Pop: consecutive deltas of the stream.
type Batch struct {
	// Deltas are the deltas of the batch in stream order. There is at least one. The batch owns the slice.
	Deltas []Delta

	queue *Queue
	count int
	bytes int64
	acked bool // whether Ack was called; queue.mu guards acked
}

// Ack marks the batch as processed: its deltas no longer count towards the queue's bounds, and Pop can return the next
// batch. A second Ack does nothing.
func (b *Batch) Ack() {
	q := b.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	if b.acked {
		return
	}
	b.acked = true
	q.out = nil
	q.count -= b.count
	q.bytes -= b.bytes
	q.cond.Broadcast()
}
