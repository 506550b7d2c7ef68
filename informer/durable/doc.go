// Package durable has handlers that keep their place over restarts: each is told of what has changed since what it
// last acknowledged, deletes too, at least once, and of nothing else.
//
// Informer.Durable returns the [Handlers] of an informer. [Handlers.Add] registers a [Handler] under a name,
// [Handlers.AddQueue] feeds a work queue of client-go with the keys, and [Handlers.AddKeys] any other.
// controllerruntime.NewDurable is a source for controllers.
//
// # What a handler is told
//
// Handlers are fed from what is committed, so they hear of a change up to a second later than ordinary handlers. A new
// handler is told of every object first. Changes of one key come in order, of a live object the last state only. An
// object that is deleted and created again under its name comes as a delete and an upsert, with two UIDs; one that
// came and went within one commit does not come.
//
// What is acknowledged is in the file after the next commit. A crash, or an error of the handler, has a change told
// again: a handler must bear that.
//
// # Bounds
//
// A handler has a goroutine of its own and holds up nobody. Up to 1,000 keys may fail, or wait to be told again, while
// others go on, and of one key 100 changes; from there on it stalls, and its Status says so. No objects are held, only
// keys: objects are read again when they are told.
//
// The place of a handler that is not registered any more is kept, and with it a tombstone of each object that is
// deleted, up to 100,000 of them and for a week in which the store is open. A handler that has not passed one which is
// dropped begins anew (OnReset). [Handlers.Forget] frees what is kept.
//
// # Ownership and shutdown
//
// New starts nothing. Handlers are told between Start and Stop, and own their goroutines. Stop waits for the calls
// that are being made, for five seconds: what is acknowledged after that is lost, and comes again. Its result waits
// for the others. No call is made under a lock.
package durable
