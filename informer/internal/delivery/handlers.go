package delivery

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/tools/cache"
)

// ErrStopped: the informer has stopped, so no handler can be added.
var ErrStopped = errors.New("the informer has stopped already")

// Handlers is the set of an informer's listeners. It owns their goroutines.
type Handlers struct {
	wg sync.WaitGroup

	mu sync.RWMutex
	// listeners has the registered listeners; mu guards the map. A listener takes part in the current resync if its value
	// is true. A new listener does until the next resync check.
	listeners map[*Listener]bool
	added     int // added counts the calls of Add; mu guards added, running and stopped
	running   bool
	stopped   bool
}

// Add registers l, and starts it if Start was called. It fails with ErrStopped after Stop.
func (p *Handlers) Add(l *Listener) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		return ErrStopped
	}
	if p.listeners == nil {
		p.listeners = map[*Listener]bool{}
	}
	p.added++
	l.order = p.added
	p.listeners[l] = true
	if p.running {
		p.startLocked(l)
	}
	return nil
}

func (p *Handlers) startLocked(l *Listener) {
	p.wg.Go(l.run)
	p.wg.Go(l.watchSynced)
}

// Start starts the registered listeners, and returns them.
func (p *Handlers) Start() []*Listener {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running = true
	all := make([]*Listener, 0, len(p.listeners))
	for l := range p.listeners {
		p.startLocked(l)
		all = append(all, l)
	}
	return all
}

// Stop ends every listener and waits for running calls.
func (p *Handlers) Stop() {
	p.mu.Lock()
	p.stopped = true
	for l := range p.listeners {
		l.stop()
	}
	p.listeners = nil
	p.mu.Unlock()
	p.wg.Wait()
}

// Remove unregisters a handler. It ignores handlers that are not registered here, and does not wait for a running call.
func (p *Handlers) Remove(handle cache.ResourceEventHandlerRegistration) error {
	l, ok := handle.(*Listener)
	if !ok {
		// The message is client-go's.
		return fmt.Errorf("invalid key type %T: it is no registration of this kind of informer", handle)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, ok := p.listeners[l]; !ok {
		return nil
	}
	delete(p.listeners, l)
	l.stop()
	if !p.running {
		close(l.done)
	}
	return nil
}

// Distribute queues n for every listener, or, for a resync, for the resyncing listeners. It adds log lines to due.
func (p *Handlers) Distribute(n Call, resync bool, due *Lines) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	for l, resyncing := range p.listeners {
		if !resync || resyncing {
			l.add(n, due)
		}
	}
}

// Any reports whether a handler is registered.
func (p *Handlers) Any() bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return len(p.listeners) > 0
}

// Resyncing returns the listeners that take part in the current resync.
func (p *Handlers) Resyncing() (all []*Listener) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	for l, takesPart := range p.listeners {
		if takesPart {
			all = append(all, l)
		}
	}
	return all
}

// ResyncDue decides which listeners take part in the next resync, and reports whether there are any.
func (p *Handlers) ResyncDue(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	due := false
	for l := range p.listeners {
		p.listeners[l] = l.resyncDue(now)
		due = due || p.listeners[l]
	}
	return due
}

// Status describes the listeners, in the order in which they were added.
func (p *Handlers) Status() []State {
	p.mu.RLock()
	defer p.mu.RUnlock()
	all := slices.SortedFunc(maps.Keys(p.listeners), func(a, b *Listener) int { return a.order - b.order })
	out := make([]State, 0, len(all))
	for _, l := range all {
		out = append(out, l.Status())
	}
	return out
}

// Each calls fn for every listener.
func (p *Handlers) Each(fn func(*Listener)) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	for l := range p.listeners {
		fn(l)
	}
}

// Lock returns mu, for tests of package informer: they check that no callback runs under it.
func (p *Handlers) Lock() *sync.RWMutex { return &p.mu }

// Hide unregisters a listener until restore is called, for tests of package informer.
func (p *Handlers) Hide(l *Listener) (restore func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.listeners, l)
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.listeners != nil {
			p.listeners[l] = true
		}
	}
}

// Lines are log lines that must be written without holding a lock: a logger is user code and may call the informer.
type Lines []func()

// Add adds a line.
func (l *Lines) Add(line func()) { *l = append(*l, line) }

// Log writes the lines and empties l.
func (l *Lines) Log() {
	due := *l
	*l = nil
	for _, line := range due {
		line()
	}
}
