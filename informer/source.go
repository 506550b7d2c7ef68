package informer

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/runtime"
)

// SourceChange says that readers' data come from elsewhere than before.
type SourceChange struct {
	// From and To; both are the present source in the first call of a subscriber.
	From, To Source
	// At is when.
	At time.Time
	// LastContact is when the server had last been heard.
	LastContact time.Time
	// Err is Status.Err: why the connection was lost, or the store fails, when To is not Live.
	Err error
}

// SubscribeSource has fn called with the present source, and then with each change of Status.Source, in order. cancel
// ends that; fn may call it. The calls are made by one goroutine of the run, under no lock: none before Run, none after
// it, and the last is about its end. A subscriber that takes its time delays the other subscribers and nobody else; of
// a thousand changes that it is behind the oldest are told as one.
//
// Live is told when everything that came has been stored and queued for the handlers, which need not have returned.
func (i *Informer) SubscribeSource(fn func(SourceChange)) (cancel func()) {
	i.reviewSource()
	return i.sources.add(fn, i.contactOrStored())
}

// facts are what the source is told from.
type facts struct {
	complete bool // there is a whole state, in memory or on disk
	live     bool // the reflector is
	applied  bool // the loop has come to where the reflector was when it became live
	lacking  bool // objects may be missing that the file has lost
	healthy  bool // the store takes what comes
	stopped  bool // the run has ended
}

// sourceOf says where data come from.
func sourceOf(f facts) Source {
	switch {
	case !f.complete:
		return None
	case f.live && f.applied && !f.lacking && f.healthy && !f.stopped:
		return Live
	}
	return FromDisk
}

// reviewSource finds out where data come from, and has it told if it is from elsewhere. It may be called by anybody who
// holds no lock, after anything that it depends on has changed.
func (i *Informer) reviewSource() {
	s := &i.sources
	s.review.Lock() // so that an older finding does not follow a newer one
	defer s.review.Unlock()
	i.mu.Lock()
	r, f := i.reflector, facts{complete: true, stopped: i.stopped}
	i.mu.Unlock()
	storeErr, _ := i.health.errs()
	f.healthy = storeErr == nil
	f.live = r != nil && r.Live()
	// After live, which is said when the mark has been pushed that the loop has to come to.
	f.applied, f.lacking = i.sync.level(), i.sync.lacking.Load()
	was, _, _ := s.status()
	if was == Live && sourceOf(f) == Live {
		return // after each batch, so without a look into the store
	}
	info, err := i.store.Info(context.Background())
	if err != nil && was != None {
		info.Complete = true // it was, and cannot be read at the moment
	}
	f.complete = info.Complete
	now := sourceOf(f)
	if now == was {
		return
	}
	c := SourceChange{From: was, To: now, At: i.clock.Now(), LastContact: i.contactTime()}
	if c.LastContact.IsZero() {
		c.LastContact = info.LastContact
	}
	if now != Live {
		c.Err = i.sourceErr(err)
	}
	s.change(c)
}

// sourceErr is why data are not live.
func (i *Informer) sourceErr(reading error) error {
	storeErr, commitErr := i.health.errs()
	var connection error
	if r := i.currentReflector(); r != nil {
		connection = r.Status().Err
	}
	return firstError(storeErr, commitErr, reading, connection)
}

// contactOrStored is Status.LastContact.
func (i *Informer) contactOrStored() time.Time {
	if at := i.contactTime(); !at.IsZero() {
		return at
	}
	info, _ := i.store.Info(context.Background()) // the status tells of the error
	return info.LastContact
}

// maxSourceChanges is how many a subscriber may be behind.
const maxSourceChanges = 1000

// sources is where data come from, and those who want to know. Its goroutine tells them.
type sources struct {
	review sync.Mutex // held while the source is found out; taken before any other

	mu          sync.Mutex
	now         Source         // guarded by mu, like all below
	since       time.Time      // when it began to be so
	changes     map[Source]int // how often it came to be each
	subscribers []*sourceSubscriber
	wake        chan struct{} // has room for word that there is something to tell
	stopped     bool
	done        chan struct{} // closed when the goroutine has ended; nil while there is none
}

// sourceSubscriber is one who wants to know.
type sourceSubscriber struct {
	fn func(SourceChange)
	// pending is what it has not been told; guarded by sources.mu.
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

// add adds a subscriber, to be told of the present source first.
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

// change notes a change for everybody.
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
	default: // there is word already
	}
}

// start tells the subscribers from now on.
func (s *sources) start(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done = make(chan struct{})
	go func() {
		defer close(s.done)
		for range s.wake {
			s.tell(ctx)
		}
	}()
}

// stop has them told of what has been so far, and ends the goroutine.
func (s *sources) stop() {
	s.mu.Lock()
	s.stopped = true
	close(s.wake) // word that is in it is still heard
	done := s.done
	s.mu.Unlock()
	<-done
}

// tell makes the calls that are due.
func (s *sources) tell(ctx context.Context) {
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

// next returns a subscriber and what it is to be told; nil if there is nothing.
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
