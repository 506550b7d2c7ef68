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

// goBackground runs fn in a goroutine that Close cancels and waits for. It
// returns false, and does not run fn, once Close has begun. The name is for the log.
func (s *Store) goBackground(name string, fn func(ctx context.Context)) bool {
	b := &s.background
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false
	}
	ctx, cancel := context.WithCancel(context.Background())
	b.cancel = append(b.cancel, cancel)
	b.wg.Go(func() {
		defer cancel()
		s.log.V(4).Info("Background work starts", "file", s.path, "work", name)
		fn(ctx)
		s.log.V(4).Info("Background work ended", "file", s.path, "work", name)
	})
	return true
}
