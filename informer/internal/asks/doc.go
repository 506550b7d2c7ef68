// Package asks passes requests of other goroutines to the process loop of an informer. The requests bypass the queue,
// which carries only deltas from the server. So a request does not wait for a full queue, and has no order relative to
// the deltas.
//
// Any goroutine calls the To methods of [Asks], which do not block. The process loop waits for its next batch in
// [Asks.Wait], which a request interrupts, and then takes the requests with [Asks.Take].
package asks
