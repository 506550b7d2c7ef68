package boltfile

import (
	"context"
	"sync"
)

// Workers runs background goroutines of one part of a file's users, a collection: they end before the file's own do.
type Workers struct {
	file    *File
	ctx     context.Context // ends with Stop
	cancel  context.CancelFunc
	mu      sync.Mutex // held while running grows, and for cancel
	running sync.WaitGroup
}

// Workers returns a Workers without goroutines.
func (f *File) Workers() *Workers {
	w := &Workers{file: f}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	return w
}

// Start calls fn in a goroutine. Stop and CloseBackground cancel its context and wait for it. After Stop it calls fn
// directly, with a cancelled context.
func (w *Workers) Start(name string, fn func(ctx context.Context)) {
	w.mu.Lock()
	stopped := w.ctx.Err() != nil
	if !stopped {
		w.running.Add(1)
	}
	w.mu.Unlock()
	if stopped {
		fn(w.ctx)
		return
	}
	w.file.Go(name, func(storeCtx context.Context) {
		defer w.running.Done()
		ctx, cancel := context.WithCancel(w.ctx)
		defer cancel()
		defer context.AfterFunc(storeCtx, cancel)()
		fn(ctx)
	})
}

// Do calls fn in the caller's goroutine. Stop cancels its context and waits for it; fn's error is then ErrClosed, as
// that of Do after Stop.
func (w *Workers) Do(ctx context.Context, fn func(ctx context.Context) error) error {
	w.mu.Lock()
	if w.ctx.Err() != nil {
		w.mu.Unlock()
		return ErrClosed
	}
	w.running.Add(1)
	w.mu.Unlock()
	defer w.running.Done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(w.ctx, cancel)()
	err := fn(ctx)
	if err != nil && w.ctx.Err() != nil {
		return ErrClosed
	}
	return err
}

// Stop cancels the goroutines, and the calls of Do, and waits for them.
func (w *Workers) Stop() {
	w.mu.Lock()
	w.cancel()
	w.mu.Unlock()
	w.Wait()
}

// Wait waits until no goroutine is left.
func (w *Workers) Wait() { w.running.Wait() }
