package fifo

// Batch is what one Pop took: a run of the stream.
type Batch struct {
	// Deltas in stream order; at least one. The batch owns the slice.
	Deltas []Delta

	queue *Queue
	count int
	bytes int64
	syncs bool // holds a Drained
	acked bool // guarded by queue.mu
}

// Ack says that the batch has been processed: it no longer counts towards the bounds, and the next
// one can be popped. Calling it again does nothing.
func (b *Batch) Ack() { b.end(true) }

// Drop is Ack for a batch that was not processed: it makes room, but does not complete the first sync.
func (b *Batch) Drop() { b.end(false) }

func (b *Batch) end(processed bool) {
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
	if processed && b.syncs && !q.syncedLocked() {
		close(q.synced)
	}
	q.cond.Broadcast()
}
