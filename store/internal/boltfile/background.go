package boltfile

import (
	"context"
	"sync"

	"github.com/go-logr/logr"
)

// background owns the background goroutines of a File. Make it with init.
type background struct {
	log    func() logr.Logger
	ctx    context.Context
	cancel context.CancelFunc

	mu sync.Mutex
	// running is the number of goroutines, and every change signals ended; mu guards running. A sync.WaitGroup would not
	// do, because a goroutine may start while CloseBackground waits.
	running int
	ended   *sync.Cond
}

func (b *background) init(log func() logr.Logger) {
	b.log, b.ended = log, sync.NewCond(&b.mu)
	b.ctx, b.cancel = context.WithCancel(context.Background())
}

// CloseBackground cancels the background work and waits for its end.
func (b *background) CloseBackground() {
	b.cancel()
	b.WaitBackground(0)
}

func (b *background) WaitBackground(most int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.running > most {
		b.ended.Wait()
	}
}

func (b *background) ending() bool { return b.ctx.Err() != nil }

// Go runs fn in a goroutine that CloseBackground cancels and waits for. After CloseBackground, fn gets a cancelled
// context, and Close waits for fn.
func (b *background) Go(name string, fn func(ctx context.Context)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.running++
	go func() {
		b.log().V(4).Info("Background work starts", "work", name)
		fn(b.ctx)
		b.log().V(4).Info("Background work ended", "work", name)
		b.mu.Lock()
		defer b.mu.Unlock()
		b.running--
		b.ended.Broadcast()
	}()
}
