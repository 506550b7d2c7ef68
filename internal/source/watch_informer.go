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
	// watchQueue is the maximum number of queued events of a reader, and putTimeout how long the informer's handler
	// waits if the queue is full.
	watchQueue = 1024
	putTimeout = 30 * time.Second
)

// Informer is the part of cache.SharedInformer that WatchInformer needs.
type Informer interface {
	AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error)
	RemoveEventHandler(handle cache.ResourceEventHandlerRegistration) error
	HasSyncedChecker() cache.DoneChecker
}

// WatchInformer implements Watcher.Watch with a running informer of unstructured objects or of metadata, for a
// collection without a changelog. Its events have no Seq. Without List it begins once the informer has synced. Its
// handler receives all objects and selects the requested ones. If 1,024 events are queued the handler waits for the
// reader. The watch ends with ErrSlow if the reader then takes none for half a minute.
//
// The caller must cancel ctx to stop the informer, since the informer waits for the handler.
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
		cancel(nil) // releases a handler that waits for the queue
		err = errors.Join(err, inf.RemoveEventHandler(handle))
	}()
	return h.pass(handle, fn)
}

// informerWatch is the informer's handler of one watch. The informer calls its methods one at a time.
type informerWatch struct {
	ctx       context.Context
	cancel    context.CancelCauseFunc
	selection *selection
	list      bool
	queue     chan Event
}

// pass sends queued events to the reader.
func (h *informerWatch) pass(handle cache.ResourceEventHandlerRegistration, fn func(Event) error) error {
	listed := handle.HasSyncedChecker().Done()
	for more := false; ; {
		// Empty the queue first: when the handle has synced, the list is in the queue.
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

// drain sends the events that are queued now.
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
	h.handle(obj, change{created: true}, initial && !h.list)
}

// OnUpdate implements cache.ResourceEventHandler.
func (h *informerWatch) OnUpdate(_, obj any) { h.handle(obj, change{}, false) }

// OnDelete implements cache.ResourceEventHandler.
func (h *informerWatch) OnDelete(obj any) { h.handle(obj, change{deleted: true}, false) }

// handle queues the event of a change, if there is one. If silent is set it only updates the selection.
func (h *informerWatch) handle(obj any, c change, silent bool) {
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

// put queues an event. If the queue stays full for putTimeout it ends the watch with ErrSlow.
func (h *informerWatch) put(e Event) {
	select {
	case h.queue <- e:
		return
	default:
	}
	t := time.NewTimer(putTimeout)
	defer t.Stop()
	select {
	case h.queue <- e:
	case <-t.C:
		h.cancel(ErrSlow)
	case <-h.ctx.Done():
	}
}
