package informer

import (
	"context"
	"sync"
)

// asks holds the requests of other goroutines to the process loop. They do not go through the queue, which carries
// only deltas from the server: so a request neither waits for a full queue nor has an order relative to the deltas.
// The zero value has no requests and is ready to use.
type asks struct {
	mu sync.Mutex
	ask
	// interrupt cancels the loop's wait for a batch; nil while the loop is not waiting. Guarded by mu, like ask.
	interrupt func()
}

// ask is the set of pending requests: those that the loop has not taken yet.
type ask struct {
	// resync requests that the stored objects be sent to the handlers that are resyncing.
	resync bool
	// unreadable requests a list that rewrites every body: it is the error of a stored body that cannot be read. nil if
	// there is no such request.
	unreadable error
	// looked requests a repair of the store, which has failed or is being closed. The loop closes it once the store works
	// again. nil if there is no such request.
	looked chan struct{}
}

// some reports whether there is a pending request.
func (a ask) some() bool { return a.resync || a.unreadable != nil || a.looked != nil }

// add calls fn, which adds a request to the pending ones, and wakes the loop if it waits for a batch.
func (a *asks) add(fn func(*ask)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	fn(&a.ask)
	if a.interrupt != nil {
		a.interrupt()
	}
}

// toResync asks for a resync.
func (a *asks) toResync() { a.add(func(a *ask) { a.resync = true }) }

// toReplace requests a list that rewrites every body. unreadable is the error of a stored body that cannot be read.
func (a *asks) toReplace(unreadable error) { a.add(func(a *ask) { a.unreadable = unreadable }) }

// toLook requests a repair of the store if it has failed. The channel that it returns is closed once the store works
// again; it stays open if the loop ends first, as it does when the store is closed.
func (a *asks) toLook() (looked <-chan struct{}) {
	a.add(func(a *ask) {
		if a.looked == nil {
			a.looked = make(chan struct{})
		}
		looked = a.looked
	})
	return looked
}

// take returns the pending requests and removes them.
func (a *asks) take() (taken ask) {
	a.mu.Lock()
	defer a.mu.Unlock()
	taken, a.ask = a.ask, ask{}
	return taken
}

// wait calls fn with a context that ends when ctx ends or when there is a pending request. It returns whether a request
// is pending after fn has returned.
func (a *asks) wait(ctx context.Context, fn func(ctx context.Context)) (asked bool) {
	waiting, stop := context.WithCancel(ctx)
	defer stop()
	a.mu.Lock()
	if a.some() {
		stop()
	}
	a.interrupt = stop
	a.mu.Unlock()
	fn(waiting)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.interrupt = nil
	return a.some()
}
