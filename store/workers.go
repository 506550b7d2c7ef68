package store

import (
	"context"
	"sync"
)

// workers runs the background goroutines of a collection. The zero value is ready to use.
type workers struct {
	mu      sync.Mutex
	stopped bool           // guarded by mu
	cancels map[int]func() // cancel functions of the running goroutines; guarded by mu
	started int            // number of goroutines started, and the next key of cancels; guarded by mu
	running sync.WaitGroup
}

// start calls fn in a goroutine. stop and Store.Close cancel its context and wait for it. After stop it calls fn
// directly, with a cancelled context.
func (w *workers) start(s *Store, name string, fn func(ctx context.Context)) {
	ctx, cancel := context.WithCancel(context.Background())
	ended, ok := w.add(cancel)
	if !ok {
		cancel()
		fn(ctx)
		return
	}
	s.goBackground(name, func(storeCtx context.Context) {
		defer ended()
		defer cancel()
		defer context.AfterFunc(storeCtx, cancel)()
		fn(ctx)
	})
}

// add counts a goroutine, which must call ended. It returns false after stop.
func (w *workers) add(cancel func()) (ended func(), ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped {
		return nil, false
	}
	if w.cancels == nil {
		w.cancels = map[int]func(){}
	}
	n := w.started
	w.started++
	w.cancels[n] = cancel
	w.running.Add(1)
	return func() {
		w.mu.Lock()
		delete(w.cancels, n)
		w.mu.Unlock()
		w.running.Done()
	}, true
}

// stop cancels the goroutines and waits for them.
func (w *workers) stop() {
	w.mu.Lock()
	w.stopped = true
	for _, cancel := range w.cancels {
		cancel()
	}
	w.mu.Unlock()
	w.running.Wait()
}
