package boltfile

import (
	"context"
	"sync"
	"time"

	"github.com/go-logr/logr"
)

// background owns the background goroutines of a File.
type background struct {
	log func() logr.Logger

	mu     sync.Mutex
	ctx    context.Context    // context of the goroutines; nil until contextLocked is first called; guarded by mu
	cancel context.CancelFunc // guarded by mu
	timer  *time.Timer        // timer of GoAfter; nil if it was never called; guarded by mu
	// running is the number of goroutines. idle is closed when it drops to 0; nil if WaitBackground is not waiting. Both
	// are guarded by mu. A sync.WaitGroup would not do: a goroutine may be started while CloseBackground waits.
	running int
	idle    chan struct{}
}

// contextLocked returns the context of the goroutines, which CloseBackground cancels.
func (b *background) contextLocked() context.Context {
	if b.ctx == nil {
		b.ctx, b.cancel = context.WithCancel(context.Background())
	}
	return b.ctx
}

// CloseBackground cancels the background work and waits until it has ended.
func (b *background) CloseBackground() {
	b.mu.Lock()
	b.contextLocked()
	b.cancel()
	if b.timer != nil {
		b.timer.Stop()
	}
	b.mu.Unlock()
	b.WaitBackground()
}

// WaitBackground waits until there is no background work.
func (b *background) WaitBackground() {
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

// ending reports whether CloseBackground has been called.
func (b *background) ending() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.contextLocked().Err() != nil
}

// Go runs fn in a goroutine that CloseBackground cancels and waits for. After CloseBackground, fn gets a context that
// is cancelled already, and Close waits for it.
func (b *background) Go(name string, fn func(ctx context.Context)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.goLocked(name, fn)
}

func (b *background) goLocked(name string, fn func(ctx context.Context)) {
	ctx := b.contextLocked()
	b.running++
	go func() {
		defer b.ended()
		b.log().V(4).Info("Background work starts", "work", name)
		fn(ctx)
		b.log().V(4).Info("Background work ended", "work", name)
	}()
}

// GoAfter calls Go once d has passed. Until then there is no goroutine, and CloseBackground cancels the call. Do not
// call GoAfter while an earlier call waits.
func (b *background) GoAfter(d time.Duration, name string, fn func(ctx context.Context)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.contextLocked().Err() != nil {
		return
	}
	b.timer = time.AfterFunc(d, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.contextLocked().Err() == nil {
			b.goLocked(name, fn)
		}
	})
}
