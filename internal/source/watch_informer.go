package source

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/store/consumer"
)

const (
	// watchQueue is how many events wait for a reader, and patience how long the informer's handler waits for room beyond
	// that.
	watchQueue = 1024
	patience   = 30 * time.Second
)

// Informer is the part of cache.SharedInformer that WatchInformer needs.
type Informer interface {
	AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error)
	RemoveEventHandler(handle cache.ResourceEventHandlerRegistration) error
	HasSyncedChecker() cache.DoneChecker
}

// WatchInformer is Watcher.Watch on a running informer of unstructured objects or of metadata, for a collection of
// which no changes are kept. Its events have no Seq. Without List it begins once the informer has synced. A handler of
// the informer is told of every object and sorts out what is asked for; it waits for the reader when 1,024 events are
// queued, and the watch ends with ErrSlow if the reader takes none for half a minute then.
//
// The caller has to end ctx when the informer is to stop, which waits for the handler.
func WatchInformer(ctx context.Context, inf Informer, q WatchQuery, fn func(Event) error) (err error) {
	s, err := newSelection(q.Query)
	if err := errors.Join(err, q.check()); err != nil {
		return err
	}
	if q.Since != nil {
		return consumer.ErrNotKept
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if !q.List {
		select {
		case <-inf.HasSyncedChecker().Done():
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	h := &informerWatch{ctx: ctx, cancel: cancel, selection: s, list: q.List, queue: make(chan Event, watchQueue)}
	if err := fn(Event{Type: Bookmark}); err != nil {
		return err
	}
	handle, err := inf.AddEventHandler(h)
	if err != nil {
		return err
	}
	defer func() {
		cancel(nil) // a call of the handler that waits for room
		err = errors.Join(err, inf.RemoveEventHandler(handle))
	}()
	return h.pass(handle, fn)
}

// informerWatch is the informer's handler of one watch. Its calls come one at a time.
type informerWatch struct {
	ctx       context.Context
	cancel    context.CancelCauseFunc
	selection *selection
	list      bool
	queue     chan Event
}

// pass gives what is queued to the reader.
func (h *informerWatch) pass(handle cache.ResourceEventHandlerRegistration, fn func(Event) error) error {
	listed := handle.HasSyncedChecker().Done()
	for more := false; ; {
		// Nothing else while something is queued: the list is in the queue when the handle has synced.
		select {
		case e := <-h.queue:
			if h.ctx.Err() != nil {
				return context.Cause(h.ctx)
			}
			if err := fn(e); err != nil {
				return err
			}
			more = true
			continue
		default:
		}
		if more {
			more = false
			if err := fn(Event{Type: Bookmark}); err != nil {
				return err
			}
		}
		select {
		case <-h.ctx.Done():
			return context.Cause(h.ctx)
		case e := <-h.queue:
			if err := fn(e); err != nil {
				return err
			}
			more = true
		case <-listed:
			listed = nil
			if err := h.drain(fn); err != nil {
				return err
			}
			if err := fn(Event{Type: Bookmark, Listed: h.list}); err != nil {
				return err
			}
			more = false
		}
	}
}

// drain gives what is queued now.
func (h *informerWatch) drain(fn func(Event) error) error {
	for {
		select {
		case e := <-h.queue:
			if err := fn(e); err != nil {
				return err
			}
		default:
			return nil
		}
	}
}

// OnAdd implements cache.ResourceEventHandler.
func (h *informerWatch) OnAdd(obj any, initial bool) {
	h.tell(obj, change{created: true}, initial && !h.list)
}

// OnUpdate implements cache.ResourceEventHandler.
func (h *informerWatch) OnUpdate(_, obj any) { h.tell(obj, change{}, false) }

// OnDelete implements cache.ResourceEventHandler.
func (h *informerWatch) OnDelete(obj any) { h.tell(obj, change{deleted: true}, false) }

// tell queues what the reader is to be told of a change. It only notes one that is silent.
func (h *informerWatch) tell(obj any, c change, silent bool) {
	if h.ctx.Err() != nil {
		return
	}
	if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		c.key, obj = gone.Key, gone.Obj
	}
	var err error
	if c.object, _ = obj.(runtime.Object); c.object != nil {
		c.key, err = cache.MetaNamespaceKeyFunc(obj)
	}
	var e Event
	var ok bool
	if err == nil {
		e, ok, err = h.selection.event(c)
	}
	switch {
	case err != nil:
		h.cancel(err)
	case ok && !silent:
		h.put(e)
	}
}

// put waits for room, but not for ever.
func (h *informerWatch) put(e Event) {
	select {
	case h.queue <- e:
		return
	default:
	}
	t := time.NewTimer(patience)
	defer t.Stop()
	select {
	case h.queue <- e:
	case <-t.C:
		h.cancel(ErrSlow)
	case <-h.ctx.Done():
	}
}
