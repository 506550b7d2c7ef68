// Package fifo is the ordered, bounded queue of deltas between the reflector
// and the informer's process loop.
//
// Call [New], then [Queue.Push] from the producer and [Queue.Pop] from the consumer:
//
//	batch, err := q.Pop(ctx, fifo.Limits{})
//	… process batch.Deltas …
//	batch.Ack()
//
// # Ordering
//
// Deltas come out in the order in which they went in. Nothing is merged,
// replaced or reordered by key, so what has been popped is always a prefix of
// the stream: the resourceVersion of its last delta covers exactly it.
//
// # Batches
//
// A batch is a run of changes and bookmarks (see [Batchable]), or exactly one
// delta of another type. So no batch crosses the start or the end of a list, or [Drained].
// The consumer takes one batch at a time and acknowledges it before the next.
//
// # Bounds and backpressure
//
// The queue is bounded by number of objects and by bytes. A delta stops to
// count when its batch is acknowledged, not when it is popped: while
// the consumer retries a batch the queue stays full and the producer blocks, until there is room,
// its context ends, or the queue is closed. A delta larger than
// a bound passes when the queue is empty.
//
// # Shutdown
//
// [Queue.Close] fails every Push at once. Pop still hands out what was
// accepted before, then fails: a consumer that does not want the rest does not call it. The
// queue has no goroutines.
package fifo
