package store

import (
	"context"
	"sync"
	"time"
)

// background owns the background goroutines of a store. The zero value is ready to use.
type background struct {
	mu     sync.Mutex
	ctx    context.Context    // context of the goroutines; nil until contextLocked is first called; guarded by mu
	cancel context.CancelFunc // guarded by mu
	timer  *time.Timer        // timer of goBackgroundAfter; nil if it was never called; guarded by mu
	// running is the number of goroutines. idle is closed when it drops to 0; nil if wait is not waiting. Both are guarded
	// by mu. A sync.WaitGroup would not do: a goroutine may be started while close waits.
	running int
	idle    chan struct{}
}

// contextLocked returns the context of the goroutines, which close cancels.
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

// wait returns once no goroutine runs.
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

// goBackgroundAfter calls goBackground once d has passed. Until then there is no goroutine, and Close cancels the call.
// Only one call can be waiting at a time.
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
