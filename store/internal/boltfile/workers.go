package boltfile

import (
	"context"
	"sync"
)

// Workers runs the background goroutines of one user of a File, such as a collection.
type Workers struct {
	file    *File
	ctx     context.Context // Stop cancels ctx, the context of the goroutines.
	cancel  context.CancelFunc
	mu      sync.Mutex // Start, Do and Stop hold mu while they check or end ctx; running grows only under mu.
	running sync.WaitGroup
}

func (f *File) Workers() *Workers {
	w := &Workers{file: f}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	return w
}

// Start calls fn in a goroutine. Stop and CloseBackground cancel the context of fn and wait for fn. After Stop, Start
// calls fn directly, with a cancelled context.
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

// Do calls fn in the caller's goroutine. Stop cancels fn's context and waits for fn; Do then returns ErrClosed if fn
// fails. After Stop, Do returns ErrClosed at once.
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

// Stop cancels the contexts of Start and Do, and waits for their functions.
func (w *Workers) Stop() {
	w.mu.Lock()
	w.cancel()
	w.mu.Unlock()
	w.Wait()
}

func (w *Workers) Wait() { w.running.Wait() }
