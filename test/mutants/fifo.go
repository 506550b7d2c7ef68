package main

var fifoMutants = []mutant{
	{
		name:   "fifo/unbounded",
		breaks: "A full queue blocks its producers.",
		file:   "fifo/queue.go",
		old:    "	return q.count+d.count() <= q.o.MaxCount && q.bytes+d.Bytes <= q.o.MaxBytes",
		new:    "	return true",
		test:   "TestProducerBlocksOnCount",
	},
	{
		name:   "fifo/bytes-unbounded",
		breaks: "A queue is bounded in bytes, too.",
		file:   "fifo/queue.go",
		old:    " && q.bytes+d.Bytes <= q.o.MaxBytes",
		new:    "",
		test:   "TestProducerBlocksOnBytes",
	},
	{
		name:   "fifo/large-blocks-for-ever",
		breaks: "A delta larger than a bound passes when the queue is empty.",
		file:   "fifo/queue.go",
		old: `	if q.count == 0 {
		return true
	}
	return q.count`,
		new:  `	return q.count`,
		test: "TestProducerBlocksOnBytes",
	},
	{
		name:   "fifo/room-when-popped",
		breaks: "A delta counts until its batch is acknowledged, not only until it is popped.",
		file:   "fifo/queue.go",
		old: `	q.out = q.takeLocked(l)
	return q.out, nil
`,
		new: `	q.out = q.takeLocked(l)
	q.count, q.bytes, q.out.count, q.out.bytes = q.count-q.out.count, q.bytes-q.out.bytes, 0, 0
	q.cond.Broadcast()
	return q.out, nil
`,
		test: "TestProducerBlocksOnCount",
	},
	{
		name:   "fifo/batch-crosses-a-list",
		breaks: "No batch crosses the start or the end of a list.",
		file:   "fifo/queue.go",
		old: `		if !Batchable(d.Type) {
			break
		}
	}
	return b
`,
		new: `	}
	return b
`,
		test: "TestBatchesArePrefixes",
	},
	{
		name:   "fifo/batch-unbounded",
		breaks: "A batch is no larger than its limit of bytes.",
		file:   "fifo/queue.go",
		old:    " || b.bytes+d.Bytes > l.Bytes) {",
		new:    ") {",
		test:   "TestBatchBytes",
	},
	{
		name:   "fifo/two-batches",
		breaks: "The next batch is delivered only after the last one was acknowledged.",
		file:   "fifo/queue.go",
		old: `	if q.out != nil {
		return nil, ErrNotAcked
	}
	err := q.waitLocked`,
		new: `	q.out = nil
	err := q.waitLocked`,
		test: "TestOneBatchAtATime",
	},
	{
		name:   "fifo/merges-updates",
		breaks: "Deltas are not merged, and keep their order.",
		file:   "fifo/queue.go",
		old: `		q.next = nil
		b.Deltas = append(b.Deltas, *d)
`,
		new: `		q.next = nil
		if n := len(b.Deltas); n > 0 && d.Type == cache.Updated && b.Deltas[n-1].Type == cache.Updated {
			b.Deltas = b.Deltas[:n-1]
		}
		b.Deltas = append(b.Deltas, *d)
`,
		test: "TestBatchesArePrefixes",
	},
	{
		name:   "fifo/close-loses-accepted",
		breaks: "A closed queue still delivers accepted deltas.",
		file:   "fifo/queue.go",
		old: `	if q.peekLocked() == nil {
		return nil, cache.ErrFIFOClosed
	}
`,
		new: `	if q.closed || q.peekLocked() == nil {
		return nil, cache.ErrFIFOClosed
	}
`,
		test: "TestClose",
	},
	{
		name:   "fifo/cancelled-push-taken",
		breaks: "A Push that returns an error has not taken its delta.",
		file:   "fifo/queue.go",
		old: `	if err != nil {
		return err
	}
	if q.closed {
		return cache.ErrFIFOClosed
	}
	q.count`,
		new: `	if err != nil {
		q.items.WriteOne(&d)
		return err
	}
	if q.closed {
		return cache.ErrFIFOClosed
	}
	q.count`,
		test: "TestProducerIsCancellable",
	},
}
