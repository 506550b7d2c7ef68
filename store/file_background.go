package store

import (
	"context"
	"sync"
)

// background owns the goroutines that work for a store. The zero value is ready.
type background struct {
	mu     sync.Mutex
	cancel []context.CancelFunc // guarded by mu
	closed bool                 // guarded by mu
	wg     sync.WaitGroup
}

// close cancels every goroutine, waits for them, and lets no other start.
func (b *background) close() {
	b.mu.Lock()
	b.closed = true
	for _, cancel := range b.cancel {
		cancel()
	}
	b.cancel = nil
	b.mu.Unlock()
	b.wg.Wait()
}

// goBackground runs fn in a goroutine that Close cancels and waits for. Once
// Close has begun, fn gets a context that is cancelled already.
func (s *Store) goBackground(name string, fn func(ctx context.Context)) {
	b := &s.background
	b.mu.Lock()
	defer b.mu.Unlock()
	ctx, cancel := context.WithCancel(context.Background())
	if b.closed {
		cancel()
	}
	b.cancel = append(b.cancel, cancel)
	b.wg.Go(func() {
		defer cancel()
		s.logger().V(4).Info("Background work starts", "work", name)
		fn(ctx)
		s.logger().V(4).Info("Background work ended", "work", name)
	})
}
