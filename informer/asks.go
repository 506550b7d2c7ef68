package informer

import (
	"context"
	"sync"
)

// asks is what others want of the loop. The queue carries what the server said, and nothing else: so what is asked
// waits for no room, and has no place in the stream. The zero value is ready.
type asks struct {
	mu sync.Mutex
	ask
	// interrupt ends the loop's wait for a batch; nil while it does not wait.
	interrupt func()
}

// ask is what the loop has been asked and has not taken.
type ask struct {
	// resync: send the stored objects to the handlers that are resyncing.
	resync bool
	// unreadable is why a list has to write every body anew; nil if none has.
	unreadable error
	// looked is closed when the loop has looked after the store, which has failed or is being closed; nil if there is no
	// need.
	looked chan struct{}
}

// some reports whether anything is asked.
func (a ask) some() bool { return a.resync || a.unreadable != nil || a.looked != nil }

// add asks for what fn notes.
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

// toReplace asks for a list that writes every body anew, since the one of which this is the error cannot be read.
func (a *asks) toReplace(unreadable error) { a.add(func(a *ask) { a.unreadable = unreadable }) }

// toLook asks to look after the store, and returns what is closed when that is done.
func (a *asks) toLook() (looked <-chan struct{}) {
	a.add(func(a *ask) {
		if a.looked == nil {
			a.looked = make(chan struct{})
		}
		looked = a.looked
	})
	return looked
}

// take returns what is asked, once.
func (a *asks) take() (taken ask) {
	a.mu.Lock()
	defer a.mu.Unlock()
	taken, a.ask = a.ask, ask{}
	return taken
}

// wait calls fn with a context that ends when something is asked, too; asked is whether it did.
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
