package informer

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/runtime"
)

// SourceChange is a change of Status.Source.
type SourceChange struct {
	// From and To are the source before and after the change. They are equal in a subscriber's first call.
	From, To Source
	At       time.Time
	// LastContact is Status.LastContact.
	LastContact time.Time
	// Err is Status.Err: why the connection was lost, or the store fails, when To is not Live.
	Err error
}

// SubscribeSource calls fn with the current source, and then with each change of Status.Source, in order, until cancel
// is called; fn may call cancel. One goroutine of the run makes the calls, without a lock. It makes none before Run and
// none after it; the last call is about the end of the run. A slow subscriber delays only other subscribers. If it is
// more than a thousand changes behind, the oldest changes are merged.
//
// The source becomes Live when everything that was received has been stored and queued for the handlers. The handlers
// need not have returned. The end of the run waits for a call that has begun. To follow all informers of a factory or a
// manager, subscribe in Observer.InformerMade.
func (i *Informer) SubscribeSource(fn func(SourceChange)) (cancel func()) {
	i.reviewSource()
	return i.sources.add(fn, i.shared.contactOrStored())
}

// facts are the conditions from which sourceOf derives where the readers' data comes from.
type facts struct {
	complete bool // complete is true if the store, in memory or on disk, has a complete state
	live     bool // live is reflector.Status.Live
	applied  bool // applied is true if the process loop has reached the last fifo.Drained delta
	missing  bool // missing is true if the store may lack objects that the server has
	healthy  bool // healthy is true if the store can be written
	stopped  bool
}

func sourceOf(f facts) Source {
	switch {
	case !f.complete:
		return None
	case f.live && f.applied && !f.missing && f.healthy && !f.stopped:
		return Live
	}
	return FromDisk
}

func (i *sharedInformer) reviewSources() {
	for _, member := range i.attachedNow() {
		member.reviewSource()
	}
}

// reviewSource computes the source, and queues a SourceChange if it has changed. It must be called after each change of
// a value in facts. Any goroutine may call it without holding a lock.
func (i *Informer) reviewSource() {
	s, shared := &i.sources, i.shared
	s.review.Lock() // held to the end, so that an older result does not overwrite a newer one
	defer s.review.Unlock()
	r, f := shared.currentReflector(), facts{complete: true, stopped: i.IsStopped()}
	storeErr, _ := shared.health.errs()
	f.healthy = storeErr == nil && i.refusal() == nil
	f.live = r != nil && r.Live()
	// The last fifo.Drained delta was pushed before live became true, so applied must be read after live.
	f.applied, f.missing = shared.sync.level(), shared.sync.missing.Load()
	was, _, _ := s.status()
	if was == Live && sourceOf(f) == Live {
		return // reviewSource runs after each batch, so this case does not read the store
	}
	info, err := shared.store.Info(context.Background())
	if err != nil && was != None {
		info.Complete = true // the store was complete, and cannot be read at the moment
	}
	f.complete = info.Complete
	now := sourceOf(f)
	if now == was {
		return
	}
	c := SourceChange{From: was, To: now, At: i.clock.Now(), LastContact: shared.contactTime()}
	if c.LastContact.IsZero() {
		c.LastContact = info.LastContact
	}
	if now != Live {
		c.Err = i.sourceErr(err)
	}
	s.change(c)
}

// sourceErr returns why the source is not Live. reading is the error of the last read of the store.
func (i *Informer) sourceErr(reading error) error {
	storeErr, commitErr := i.shared.health.errs()
	var connection error
	if r := i.shared.currentReflector(); r != nil {
		connection = r.Status().Err
	}
	return firstError(i.refusal(), storeErr, commitErr, reading, connection)
}

// contactOrStored returns the time of the last contact with the server in this run, or the stored time of an earlier
// run's last contact.
func (i *sharedInformer) contactOrStored() time.Time {
	if at := i.contactTime(); !at.IsZero() {
		return at
	}
	info, _ := i.store.Info(context.Background()) // Status.Err has the error
	return info.LastContact
}

// maxSourceChanges is how many changes a subscriber may be behind before older ones are merged.
const maxSourceChanges = 1000

// sources holds the current source and the subscribers, which one goroutine calls.
type sources struct {
	review sync.Mutex // review is held by reviewSource, and taken before any other lock

	mu          sync.Mutex // mu guards the fields below
	now         Source
	since       time.Time      // since is when now became the source
	changes     map[Source]int // changes counts how often each source was entered
	subscribers []*sourceSubscriber
	wake        chan struct{} // wake has capacity 1, and holds a token if a subscriber has pending changes
	stopped     bool
	done        chan struct{} // done is closed when the goroutine has ended; nil while there is none
}

type sourceSubscriber struct {
	fn func(SourceChange)
	// pending lists the changes for which fn is still to be called; sources.mu guards it.
	pending []SourceChange
}

func (s *sources) init(now time.Time) {
	s.now, s.since, s.changes, s.wake = None, now, map[Source]int{}, make(chan struct{}, 1)
}

func (s *sources) status() (now Source, since time.Time, changes map[Source]int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now, s.since, maps.Clone(s.changes)
}

func (s *sources) add(fn func(SourceChange), contact time.Time) (cancel func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return func() {}
	}
	n := &sourceSubscriber{fn: fn, pending: []SourceChange{{From: s.now, To: s.now, At: s.since, LastContact: contact}}}
	s.subscribers = append(s.subscribers, n)
	s.wakeLocked()
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.subscribers = slices.DeleteFunc(s.subscribers, func(other *sourceSubscriber) bool { return other == n })
	}
}

func (s *sources) change(c SourceChange) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now, s.since = c.To, c.At
	s.changes[c.To]++
	for _, n := range s.subscribers {
		n.pending = append(n.pending, c)
		if len(n.pending) > maxSourceChanges {
			n.pending[1].From = n.pending[0].From
			n.pending = n.pending[1:]
		}
	}
	s.wakeLocked()
}

func (s *sources) wakeLocked() {
	if s.stopped {
		return
	}
	select {
	case s.wake <- struct{}{}:
	default: // wake holds a token already
	}
}

func (s *sources) start(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done = make(chan struct{})
	go func() {
		defer close(s.done)
		for range s.wake {
			s.callSubscribers(ctx)
		}
	}()
}

// stop waits until the subscribers have received all pending changes and the goroutine has ended.
func (s *sources) stop() {
	s.mu.Lock()
	s.stopped = true
	close(s.wake) // the goroutine still receives a buffered token
	done := s.done
	s.mu.Unlock()
	<-done
}

func (s *sources) callSubscribers(ctx context.Context) {
	for {
		n, c := s.next()
		if n == nil {
			return
		}
		func() {
			defer runtime.HandleCrashWithContext(ctx)
			n.fn(c)
		}()
	}
}

func (s *sources) next() (n *sourceSubscriber, c SourceChange) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.subscribers {
		if len(n.pending) > 0 {
			c, n.pending = n.pending[0], n.pending[1:]
			return n, c
		}
	}
	return nil, SourceChange{}
}
