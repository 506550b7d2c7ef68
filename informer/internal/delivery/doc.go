// Package delivery makes the calls of an informer's ordinary handlers. Each handler is a [Listener] with a goroutine
// and a queue of its own; [Handlers] is the set of them.
//
// A Listener gets its calls in this order: first the objects that are stored when it joins, page by page (its backlog),
// then the changes that have been distributed since, one call at a time. Pages come from a [Source], which the Listener
// calls when the calls of the last page have been made. The first old state of each object that changes before its page
// is kept, so that the pages deliver the state at the time when the handler joined. A resync goes through the stored
// objects in the same way.
//
// From 1,024 pending calls on, updates of one object merge: so the number of objects bounds the pending calls.
//
// # Ownership
//
// The caller distributes changes, adds pages and adds handlers under one lock of its own (the informer's deltasMu), so
// that these steps are consistent. Add, Distribute, AddPage and AddResync never block and call no user code: log lines
// are returned as [Lines]. Handlers owns the goroutines: Stop ends them, and waits for running calls.
package delivery
