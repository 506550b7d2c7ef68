package cli

import (
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/internal/source"
)

// Watch implements source.Watcher: from what the file keeps, or, where it keeps no changes, from the informer.
func (m *mirror) Watch(ctx context.Context, q source.WatchQuery, fn func(source.Event) error) error {
	for _, mb := range m.now() {
		if mb.identity.ID() != q.Collection {
			continue
		}
		ctx, leave, err := mb.watches.join(ctx)
		if err != nil {
			return err
		}
		defer leave()
		if !mb.keeps {
			return source.WatchInformer(ctx, mb.informer, q, fn)
		}
		return m.File.Watch(ctx, q, fn)
	}
	return m.File.Watch(ctx, q, fn)
}

// keepChanges has the file keep what changes for so long; 0 is not at all. A sync that can not is still a sync.
func (mb *member) keepChanges(ctx context.Context, keep time.Duration) {
	err := mb.informer.KeepChanges(ctx, keep)
	if err != nil && !errors.Is(err, informer.ErrNotDurable) {
		klog.FromContext(ctx).Error(err, "Changes are not kept for larder watch --since", "resource", mb.resource.String())
	}
	mb.keeps = err == nil && keep > 0
}

// watches are those of one member. They end before its informer does, which waits for their handlers.
type watches struct {
	mu    sync.Mutex
	ended bool                                  // guarded by mu
	all   map[*context.CancelCauseFunc]struct{} // guarded by mu
}

// join returns a context that ends with the watches.
func (w *watches) join(ctx context.Context) (_ context.Context, leave func(), err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		cancel(nil)
		return nil, nil, source.ErrStopping
	}
	if w.all == nil {
		w.all = map[*context.CancelCauseFunc]struct{}{}
	}
	w.all[&cancel] = struct{}{}
	return ctx, func() {
		cancel(nil)
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.all, &cancel)
	}, nil
}

// end ends all of them, and those that come.
func (w *watches) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
	for cancel := range w.all {
		(*cancel)(source.ErrStopping)
	}
}
