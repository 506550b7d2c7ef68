package store

import (
	"context"
	"sync"
	"time"
)

// background owns the goroutines that work for a store. The zero value is ready.
type background struct {
	mu     sync.Mutex
	ctx    context.Context    // guarded by mu; nil until the first needs it
	cancel context.CancelFunc // guarded by mu
	timer  *time.Timer        // guarded by mu; of goBackgroundAfter
	// running is how many there are, and idle is closed when there is none any more; nil if nobody waits for that. Guarded
	// by mu. It is no sync.WaitGroup: one may be started while close waits.
	running int
	idle    chan struct{}
}

// contextLocked returns what ends with close.
func (b *background) contextLocked() context.Context {
	if b.ctx == nil {
		b.ctx, b.cancel = context.WithCancel(context.Background())
	}
	return b.ctx
}

// close cancels every goroutine and waits for them.
func (b *background) close() {
	b.mu.Lock()
	b.contextLocked()
	b.cancel()
	if b.timer != nil {
		b.timer.Stop()
	}
	b.mu.Unlock()
	b.wait()
}

// wait returns once nothing runs.
func (b *background) wait() {
	b.mu.Lock()
	if b.running > 0 && b.idle == nil {
		b.idle = make(chan struct{})
	}
	idle := b.idle
	b.mu.Unlock()
	if idle != nil {
		<-idle
	}
}

func (b *background) ended() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.running--; b.running == 0 && b.idle != nil {
		close(b.idle)
		b.idle = nil
	}
}

// goBackground runs fn in a goroutine that Close cancels and waits for. Once
// Close has begun, fn gets a context that is cancelled already.
func (s *Store) goBackground(name string, fn func(ctx context.Context)) {
	s.background.mu.Lock()
	defer s.background.mu.Unlock()
	s.goBackgroundLocked(name, fn)
}

func (s *Store) goBackgroundLocked(name string, fn func(ctx context.Context)) {
	ctx := s.background.contextLocked()
	s.background.running++
	go func() {
		defer s.background.ended()
		s.logger().V(4).Info("Background work starts", "work", name)
		fn(ctx)
		s.logger().V(4).Info("Background work ended", "work", name)
	}()
}

// goBackgroundAfter is goBackground once d has passed: until then there is no
// goroutine, and Close ends the wait. One such work can wait at a time.
func (s *Store) goBackgroundAfter(d time.Duration, name string, fn func(ctx context.Context)) {
	b := &s.background
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.contextLocked().Err() != nil {
		return
	}
	b.timer = time.AfterFunc(d, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.contextLocked().Err() == nil {
			s.goBackgroundLocked(name, fn)
		}
	})
}
