// Package fifo is the ordered, bounded queue of deltas between the reflector and the informer's process loop.
//
// Call [New], then [Queue.Push] from the producer and [Queue.Pop] from the consumer:
//
//	batch, err := q.Pop(ctx, fifo.Limits{})
//	… process batch.Deltas …
//	batch.Ack()
//
// # Ordering
//
// Deltas leave the queue in the order of Push. The queue neither merges nor reorders them. So the popped deltas are
// always a prefix of the stream, and the resourceVersion of the last delta covers exactly that prefix.
//
// # Batches
//
// A batch has consecutive changes and bookmarks (see [Batchable]), or exactly one delta of another type. So no batch
// crosses the start or the end of a list, or [Drained]. The consumer acknowledges each batch before the next Pop.
//
// # Bounds and backpressure
//
// The number of objects and of bytes in the queue is bounded. A delta counts until its batch is acknowledged, not only
// until Pop. So the queue stays full while the consumer retries a batch, and Push blocks until the batch is
// acknowledged, the context ends, or the queue is closed. An empty queue accepts a delta that is larger than a bound.
//
// # Shutdown
//
// [Queue.Close] fails every Push at once. Pop still returns the accepted deltas, and then fails. The queue has no
// goroutines.
package fifo
