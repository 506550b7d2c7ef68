// Package durable has event handlers that continue after a restart where they stopped. Each handler receives, at least
// once, every change since the last one that it acknowledged, including deletes, and no older change.
//
// Informer.Durable returns the [Handlers] of an informer. [Handlers.Add] registers a [Handler] under a name.
// [Handlers.AddKeys] passes the keys of changed objects to a work queue. controllerruntime.NewDurable returns a source
// for controllers.
//
// # Delivery
//
// Durable handlers receive a change once it is committed, up to a second later than ordinary handlers. A new handler
// first receives every object. Changes of one key arrive in order; of several updates of an object only the last may
// arrive. An object that is deleted and created again under the same name arrives as a delete and an upsert with
// different UIDs. An object that is created and deleted within one commit does not arrive.
//
// An acknowledgement is in the file after the next commit. After a crash, or if the handler returns an error, a change
// is delivered again, so handlers must be idempotent.
//
// # Bounds
//
// Each handler has its own goroutine. It continues while up to 1,000 keys are unacknowledged: their calls failed, or
// their work is not done yet. Beyond that the handler stalls, and its Status reports it. Only keys are held in memory:
// changes are read again when they are delivered again.
//
// When a handler is no longer registered, the file keeps its position and a tombstone for each deleted object: up to
// 100,000 tombstones, for up to a week of the time in which the store is open. If a tombstone is dropped that a handler
// has not acknowledged, the handler starts over (OnReset). [Handlers.Forget] removes the position, and the tombstones
// that no other handler needs.
//
// # Ownership and shutdown
//
// New starts no goroutine. Handlers are called between Start and Stop, each by its own goroutine. Stop waits up to five
// seconds for running calls; a change that is acknowledged later is delivered again after a restart. The function that
// Stop returns waits until all calls have returned. No call is made with a lock held.
package durable
