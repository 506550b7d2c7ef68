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
	// watchQueue is the maximum number of events that are queued for a watch's reader. putTimeout is how long the
	// informer's event handler waits while the queue is full.
	watchQueue = 1024
	putTimeout = 30 * time.Second
)

// Informer is the part of cache.SharedInformer that WatchInformer needs.
type Informer interface {
	AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error)
	RemoveEventHandler(handle cache.ResourceEventHandlerRegistration) error
	HasSyncedChecker() cache.DoneChecker
}

// WatchInformer watches a collection without a changelog, as Watcher.Watch does, through its running informer of
// unstructured objects or metadata. Its events have no Seq. Without List the watch begins once the informer has synced.
// WatchInformer adds an event handler to the informer, which queues the events of selected objects. If 1,024 events are
// queued the handler waits for the reader. If the reader then takes none for half a minute, the watch ends with
// ErrSlow.
//
// To stop the informer, the caller must also cancel ctx, since the informer waits for the handler.
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
		cancel(nil) // a handler that waits for the queue returns
		err = errors.Join(err, inf.RemoveEventHandler(handle))
	}()
	return h.pass(handle, fn)
}

// informerWatch is the informer's event handler for one watch. The informer calls its methods one at a time.
type informerWatch struct {
	ctx       context.Context
	cancel    context.CancelCauseFunc
	selection *selection
	list      bool
	queue     chan Event
}

// pass sends queued events to the watch's reader until the watch ends. The list is in the queue once handle has synced.
func (h *informerWatch) pass(handle cache.ResourceEventHandlerRegistration, fn func(Event) error) error {
	listed := handle.HasSyncedChecker().Done() // listed is nil once the end of the list was sent
	for sent, ended := false, false; ; {
		for len(h.queue) > 0 {
			if h.ctx.Err() != nil {
				return context.Cause(h.ctx)
			}
			if err := fn(<-h.queue); err != nil {
				return err
			}
			sent = true
		}
		if sent || ended {
			if err := fn(Event{Type: Bookmark, Listed: ended && h.list}); err != nil {
				return err
			}
			sent, ended = false, false
		}
		select {
		case <-h.ctx.Done():
			return context.Cause(h.ctx)
		case e := <-h.queue:
			if err := fn(e); err != nil {
				return err
			}
			sent = true
		case <-listed:
			listed, ended = nil, true
		}
	}
}

func (h *informerWatch) OnAdd(obj any, initial bool) {
	h.handle(obj, change{created: true}, initial && !h.list)
}

func (h *informerWatch) OnUpdate(_, obj any) { h.handle(obj, change{}, false) }

func (h *informerWatch) OnDelete(obj any) { h.handle(obj, change{deleted: true}, false) }

// handle queues the event of a change, if the watch's reader receives one. If silent is set, handle only updates the
// selection's keys of matching objects.
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

// put adds an event to the queue. If the queue stays full for putTimeout, put ends the watch with ErrSlow.
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
