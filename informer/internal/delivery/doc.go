// Package delivery makes the calls of an informer's ordinary handlers. Each handler is a [Listener] with a goroutine
// and a queue of its own; [Handlers] is the set of them.
//
// A Listener gets its calls in this order: what is stored when it joins, page by page (its backlog), then what has
// been distributed since, one call at a time. Pages come from a [Source], which the Listener asks when the calls of
// the last page have been made. While a page is yet to come, the first old state of each object that changes is kept,
// so that the page is told as things were when the handler joined. A resync goes through the stored objects in the
// same way.
//
// From 1,024 pending calls on, updates of one object merge, so what is pending is bounded by the objects that there
// are.
//
// # Ownership
//
// Whoever distributes changes, adds pages and has handlers join holds one lock of its own meanwhile (the informer's
// deltasMu), so that these steps fit together. Add, Distribute, AddPage and AddResync never block and call nobody:
// what is to be logged is returned as [Lines]. Handlers owns the goroutines: Stop ends them, and waits for the calls
// that are being made.
package delivery
