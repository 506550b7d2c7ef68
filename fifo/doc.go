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
// Deltas leave the queue in the order in which they were pushed. Nothing is merged, replaced or reordered by key. So
// the popped deltas are always a prefix of the stream, and the resourceVersion of the last one covers exactly that
// prefix.
//
// # Batches
//
// A batch has consecutive changes and bookmarks (see [Batchable]), or exactly one delta of another type. So no batch
// crosses the start or the end of a list, or [Drained]. The consumer takes one batch at a time and acknowledges it
// before the next.
//
// # Bounds and backpressure
//
// The queue is bounded by number of objects and by bytes. A delta counts until its batch is acknowledged, not only
// until it is popped. So while the consumer retries a batch the queue stays full, and the producer blocks until the
// batch is acknowledged, its context ends, or the queue is closed. An empty queue accepts a delta that is larger than a
// bound.
//
// # Shutdown
//
// [Queue.Close] fails every Push at once. Pop still returns the accepted deltas, and then fails; a consumer that does
// not want them stops calling it. The queue has no goroutines.
package fifo
