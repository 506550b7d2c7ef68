package fifo

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
