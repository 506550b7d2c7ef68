package informer

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/tools/cache"
)

var errStopped = errors.New("the informer has stopped already")

// processor is the set of handlers. It owns their goroutines.
type processor struct {
	wg sync.WaitGroup

	mu sync.RWMutex
	// listeners, and whether they take part in the resync under way; guarded by mu. A new
	// one does until the next resync check.
	listeners map[*listener]bool
	added     int  // guarded by mu; how many were added
	running   bool // guarded by mu
	stopped   bool // guarded by mu
}

// add registers l, and runs it if the others are running. What was added to l before comes first.
func (p *processor) add(l *listener) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		return errStopped
	}
	if p.listeners == nil {
		p.listeners = map[*listener]bool{}
	}
	p.added++
	l.order = p.added
	p.listeners[l] = true
	if p.running {
		p.startLocked(l)
	}
	return nil
}

func (p *processor) startLocked(l *listener) {
	p.wg.Go(l.run)
	p.wg.Go(l.watchSynced)
}

// start runs the listeners that are registered, and returns them.
func (p *processor) start() []*listener {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running = true
	all := make([]*listener, 0, len(p.listeners))
	for l := range p.listeners {
		p.startLocked(l)
		all = append(all, l)
	}
	return all
}

// stop ends every listener and waits for the calls that are being made.
func (p *processor) stop() {
	p.mu.Lock()
	p.stopped = true
	for l := range p.listeners {
		l.stop()
	}
	p.listeners = nil
	p.mu.Unlock()
	p.wg.Wait()
}

// remove unregisters a handler; it does nothing if it is not registered here. The call that is being made goes on.
func (p *processor) remove(handle cache.ResourceEventHandlerRegistration) error {
	l, ok := handle.(*listener)
	if !ok {
		return fmt.Errorf("cannot remove event handler: %T is not a registration of this kind of informer", handle)
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

// distribute queues n for every listener, or, for a resync, for those that are resyncing. What is to be logged is added to due.
func (p *processor) distribute(n notification, resync bool, due *lines) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	for l, resyncing := range p.listeners {
		if !resync || resyncing {
			l.add(n, due)
		}
	}
}

// resyncing returns the listeners that take part in the resync under way.
func (p *processor) resyncing() (all []*listener) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	for l, takesPart := range p.listeners {
		if takesPart {
			all = append(all, l)
		}
	}
	return all
}

// resyncDue decides which listeners take part in the next resync, and reports whether any does.
func (p *processor) resyncDue(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	due := false
	for l := range p.listeners {
		p.listeners[l] = l.resyncDue(now)
		due = due || p.listeners[l]
	}
	return due
}

// status describes the listeners, in the order in which they were added.
func (p *processor) status() []HandlerStatus {
	p.mu.RLock()
	defer p.mu.RUnlock()
	all := slices.SortedFunc(maps.Keys(p.listeners), func(a, b *listener) int { return a.order - b.order })
	out := make([]HandlerStatus, 0, len(all))
	for _, l := range all {
		out = append(out, l.status())
	}
	return out
}

// each calls fn for every listener.
func (p *processor) each(fn func(*listener)) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	for l := range p.listeners {
		fn(l)
	}
}
