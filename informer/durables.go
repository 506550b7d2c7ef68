package informer

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/larder-dev/larder/store"
)

// durableStop is how long the collection is not given back while a durable handler's call has not returned: what it acknowledges after that is lost, and
// comes again.
const durableStop = 5 * time.Second

// durables are the durable handlers of an informer. They own their goroutines.
type durables struct {
	mu      sync.Mutex
	all     map[*durable]struct{} // guarded by mu; of the removed ones those whose call has not returned
	added   int                   // guarded by mu; how many were added
	running context.Context       // of the run; nil before, and while what is stored is too old to be told; guarded by mu
	stopped bool                  // guarded by mu
}

func (s *durables) add(d *durable) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return errStopped
	}
	for other := range s.all { // without a file the store does not know
		if other.name == d.name && !other.removed {
			return store.ErrHandlerOpen
		}
	}
	if s.all == nil {
		s.all = map[*durable]struct{}{}
	}
	s.added++
	d.order = s.added
	s.all[d] = struct{}{}
	return nil
}

// begin runs d if the others are running.
func (s *durables) begin(d *durable) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d.ready = true
	if s.running != nil {
		d.start(s.running)
	}
}

// start runs the handlers until ctx ends.
func (s *durables) start(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return
	}
	s.running = ctx
	for d := range s.all {
		if d.ready {
			d.start(ctx)
		}
	}
}

// stop ends the handlers. It returns when their calls have returned, and no later than durableStop; the function that it
// returns waits for the others.
func (s *durables) stop(ctx context.Context) (wait func()) {
	s.mu.Lock()
	s.stopped = true
	all := make([]*durable, 0, len(s.all))
	for d := range s.all {
		d.stop()
		all = append(all, d)
	}
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), durableStop)
	defer cancel()
	for _, d := range all {
		select {
		case <-d.done:
		case <-ctx.Done():
		}
	}
	return func() {
		for _, d := range all {
			<-d.done
		}
	}
}

// remove unregisters a handler, and reports whether it was registered here. The call that is being made goes on.
func (s *durables) remove(d *durable) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.all[d]; !ok || d.removed {
		return false
	}
	d.removed = true
	if d.stop() {
		delete(s.all, d)
	}
	return true
}

// ended is called at the end of a handler's goroutine. Those that were removed are waited for until then.
func (s *durables) ended(d *durable) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d.removed {
		delete(s.all, d)
	}
}

// DurableStatus is a snapshot of a durable handler.
type DurableStatus struct {
	Name string
	// Seq is the number up to which it has acknowledged everything, but what fails.
	Seq uint64
	// Behind is how many numbers there are after Seq, at most so many changes.
	Behind uint64
	// Failing is how many keys wait to be told again, or have not been answered.
	Failing int
	// Stalled: they, or the changes of one of them, are as many as there may be, and nothing else is told.
	Stalled bool
	// Replaying: it is being told of every object, for that reason.
	Replaying bool
	Reset     store.ResetReason
	// Err is the last error of the handler while a key fails, or why its changes can not be read; nil if all is well.
	Err error
}

func (s *durables) status() []DurableStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]*durable, 0, len(s.all))
	for d := range s.all {
		if !d.removed {
			all = append(all, d)
		}
	}
	slices.SortFunc(all, func(a, b *durable) int { return cmp.Compare(a.order, b.order) })
	var out []DurableStatus
	for _, d := range all {
		out = append(out, d.status())
	}
	return out
}
