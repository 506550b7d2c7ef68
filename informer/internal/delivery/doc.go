// Package delivery calls an informer's ordinary event handlers. Each handler is a [Listener] with a goroutine and a
// queue of its own; [Handlers] is the set of them.
//
// A Listener delivers the objects that are stored when it is added, page by page (its backlog). Then it delivers the
// changes distributed since, one call at a time. Pages come from a [Source], which the Listener calls when the calls of
// the last page have been made. If an object changes before its page is read, the Listener keeps its old state, so that
// the pages deliver the state at the time of Add. A resync reads the stored objects in the same way.
//
// From 1,024 pending calls on, updates of one object merge, so the number of objects bounds the pending calls.
//
// # Ownership
//
// The caller distributes changes, adds pages and adds handlers under one lock of its own (the informer's deltasMu), so
// that these steps are consistent. Add, Distribute, AddPage and AddResync never block and call no user code: log lines
// are returned as [Lines]. Handlers owns the goroutines: Stop ends them, and waits for running calls.
package delivery
