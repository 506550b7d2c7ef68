package store

import (
	"context"
	"sync"
)

// workers runs the background goroutines of a collection.
type workers struct {
	ctx     context.Context // ends with stop
	cancel  context.CancelFunc
	mu      sync.Mutex // held while running grows, and for cancel
	running sync.WaitGroup
}

func newWorkers() *workers {
	w := &workers{}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	return w
}

// start calls fn in a goroutine. stop and Store.Close cancel its context and wait for it. After stop it calls fn
// directly, with a cancelled context.
func (w *workers) start(s *Store, name string, fn func(ctx context.Context)) {
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
	s.file.Go(name, func(storeCtx context.Context) {
		defer w.running.Done()
		ctx, cancel := context.WithCancel(w.ctx)
		defer cancel()
		defer context.AfterFunc(storeCtx, cancel)()
		fn(ctx)
	})
}

// stop cancels the goroutines and waits for them.
func (w *workers) stop() {
	w.mu.Lock()
	w.cancel()
	w.mu.Unlock()
	w.running.Wait()
}
