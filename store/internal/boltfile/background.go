package boltfile

import (
	"context"
	"sync"
	"time"
)

// background owns the background goroutines of a File. The zero value is ready to use.
type background struct {
	mu     sync.Mutex
	ctx    context.Context    // context of the goroutines; nil until contextLocked is first called; guarded by mu
	cancel context.CancelFunc // guarded by mu
	timer  *time.Timer        // timer of GoAfter; nil if it was never called; guarded by mu
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

// closed reports whether close has been called.
func (b *background) closed() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.contextLocked().Err() != nil
}

// CloseBackground cancels the background work and waits until it has ended.
func (f *File) CloseBackground() { f.background.close() }

// WaitBackground waits until there is no background work.
func (f *File) WaitBackground() { f.background.wait() }

// Go runs fn in a goroutine that CloseBackground cancels and waits for. After CloseBackground, fn gets a context that
// is canceled already, and Close waits for it.
func (f *File) Go(name string, fn func(ctx context.Context)) {
	f.background.mu.Lock()
	defer f.background.mu.Unlock()
	f.goLocked(name, fn)
}

func (f *File) goLocked(name string, fn func(ctx context.Context)) {
	ctx := f.background.contextLocked()
	f.background.running++
	go func() {
		defer f.background.ended()
		f.Logger().V(4).Info("Background work starts", "work", name)
		fn(ctx)
		f.Logger().V(4).Info("Background work ended", "work", name)
	}()
}

// GoAfter calls Go once d has passed. Until then there is no goroutine, and CloseBackground cancels the call. Only one
// call can be waiting at a time.
func (f *File) GoAfter(d time.Duration, name string, fn func(ctx context.Context)) {
	b := &f.background
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.contextLocked().Err() != nil {
		return
	}
	b.timer = time.AfterFunc(d, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.contextLocked().Err() == nil {
			f.goLocked(name, fn)
		}
	})
}
