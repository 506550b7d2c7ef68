package fifo

// Batch is what one Pop took: a run of the stream.
type Batch struct {
	// Deltas in stream order; at least one. The batch owns the slice.
	Deltas []Delta

	queue *Queue
	count int
	bytes int64
	acked bool // guarded by queue.mu
}

// Ack says that the batch has been processed: it no longer counts towards the bounds, and the next
// one can be popped. Calling it again does nothing.
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
