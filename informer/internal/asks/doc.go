// Package asks carries requests of other goroutines to the process loop of an informer. They do not go through the
// queue, which carries only deltas from the server: so a request neither waits for a full queue nor has an order
// relative to the deltas.
//
// Any goroutine calls the To methods of [Asks], which wait for nothing. The loop waits for its next batch in
// [Asks.Wait], which a request interrupts, and then takes what was requested with [Asks.Take].
package asks
