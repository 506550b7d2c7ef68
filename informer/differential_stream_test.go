package informer_test

import (
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"
)

// diffStream is one watch on a front, the test's server. Its buffer is unbounded, and a goroutine sends its events.
type diffStream struct {
	f      *front
	result chan watch.Event
	done   chan struct{}
	wake   chan struct{}
	once   sync.Once

	mu     sync.Mutex
	events []watch.Event
	last   bool   // last means that the watch ends after the buffered events
	failed handed // failed is the error that is sent as the watch's last event
}

func newDiffStream(f *front) *diffStream {
	s := &diffStream{f: f, result: make(chan watch.Event), done: make(chan struct{}), wake: make(chan struct{}, 1)}
	go s.run()
	return s
}

func (s *diffStream) send(e watch.Event) {
	s.mu.Lock()
	s.events = append(s.events, watch.Event{Type: e.Type, Object: e.Object.DeepCopyObject()})
	s.mu.Unlock()
	s.poke()
}

func (s *diffStream) poke() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *diffStream) run() {
	defer close(s.result)
	for {
		s.mu.Lock()
		events, last := s.events, s.last
		s.events = nil
		s.mu.Unlock()
		for _, e := range events {
			select {
			case s.result <- e:
				s.delivered(e)
			case <-s.done:
				return
			}
		}
		if last {
			return
		}
		if len(events) > 0 {
			continue
		}
		select {
		case <-s.wake:
		case <-s.done:
			return
		}
	}
}

func (s *diffStream) delivered(e watch.Event) {
	if e.Type != watch.Error {
		return
	}
	s.f.w.mu.Lock()
	defer s.f.w.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.f.handed = append(s.f.handed, s.failed)
}

// expire sends a bookmark every minute and two seconds before the watch times out, as API servers do. Then it ends the
// watch.
func (s *diffStream) expire(timeout time.Duration) {
	wait := func(d time.Duration) bool {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
			return true
		case <-s.done:
			return false
		}
	}
	go func() {
		for left := max(timeout-2*time.Second, 0); left >= 0; left -= time.Minute {
			if !wait(min(left, time.Minute)) {
				return
			}
			s.f.w.mu.Lock()
			s.send(s.f.w.bookmarkLocked())
			s.f.w.mu.Unlock()
		}
		if wait(2 * time.Second) {
			s.f.w.mu.Lock()
			s.endLocked(true)
			s.f.w.mu.Unlock()
			<-s.done
		}
	}()
}

// endLocked ends the watch: in order, after the buffered events, or immediately. The caller holds the world's mutex.
func (s *diffStream) endLocked(inOrder bool) {
	delete(s.f.streams, s)
	if !inOrder {
		s.once.Do(func() { close(s.done) })
		return
	}
	s.mu.Lock()
	s.last = true
	s.mu.Unlock()
	s.poke()
}

func (s *diffStream) failLocked(how string) {
	s.f.errors++
	s.mu.Lock()
	s.failed = handed{id: s.f.errors, how: how, verb: "event"}
	s.mu.Unlock()
	err := faultError(how, s.f.errors)
	status, ok := err.(apierrors.APIStatus)
	if !ok {
		status = apierrors.NewInternalError(err)
	}
	st := status.Status()
	s.send(watch.Event{Type: watch.Error, Object: &st})
	s.endLocked(true)
}

func (s *diffStream) Stop() {
	s.f.w.mu.Lock()
	defer s.f.w.mu.Unlock()
	s.endLocked(false)
}

func (s *diffStream) ResultChan() <-chan watch.Event { return s.result }
