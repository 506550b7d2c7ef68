package asks

import (
	"context"
	"sync"
)

// Asks holds the pending requests to the process loop of an informer. The zero value has none and is ready to use.
type Asks struct {
	mu sync.Mutex
	Ask
	// interrupt cancels the process loop's wait for a batch; nil while the process loop is not waiting. mu guards
	// interrupt and the embedded Ask.
	interrupt func()
}

// Ask is a set of requests that the process loop has not taken yet.
type Ask struct {
	// Resync requests that the stored objects be sent to the resyncing handlers.
	Resync bool
	// Unreadable, if not nil, is the error of an unreadable object, and requests a list that rewrites every stored object.
	Unreadable error
	// Looked, if not nil, requests a repair of the store, which has failed or is being closed. The process loop closes the
	// channel once the store works again.
	Looked chan struct{}
	// Saved is how many first lists of the collection have been committed since the last Take.
	Saved int
}

func (a Ask) some() bool { return a.Resync || a.Unreadable != nil || a.Looked != nil || a.Saved > 0 }

// add calls fn, which adds a request to the pending requests, and wakes the process loop if it waits for a batch.
func (a *Asks) add(fn func(*Ask)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	fn(&a.Ask)
	if a.interrupt != nil {
		a.interrupt()
	}
}

// ToResync requests a resync.
func (a *Asks) ToResync() { a.add(func(a *Ask) { a.Resync = true }) }

// ToReplace requests a list that rewrites every stored object. unreadable is the error of a stored object that cannot
// be read.
func (a *Asks) ToReplace(unreadable error) { a.add(func(a *Ask) { a.Unreadable = unreadable }) }

// ToNoteSaved reports that a collection's first list has been committed.
func (a *Asks) ToNoteSaved() { a.add(func(a *Ask) { a.Saved++ }) }

// ToLook requests a repair of the store if it has failed. The returned channel is closed once the store works again.
// The channel stays open if the process loop ends first, as it does when the store is closed.
func (a *Asks) ToLook() (looked <-chan struct{}) {
	a.add(func(a *Ask) {
		if a.Looked == nil {
			a.Looked = make(chan struct{})
		}
		looked = a.Looked
	})
	return looked
}

// Take returns the pending requests and removes them.
func (a *Asks) Take() (taken Ask) {
	a.mu.Lock()
	defer a.mu.Unlock()
	taken, a.Ask = a.Ask, Ask{}
	return taken
}

// Wait calls fn with a context that ends with ctx or at a request. It returns whether a request is pending afterwards.
func (a *Asks) Wait(ctx context.Context, fn func(ctx context.Context)) (asked bool) {
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
