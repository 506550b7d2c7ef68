package informer

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/larder-dev/larder/store"
)

// offerer is told of changes, and acknowledges them at once or later.
type offerer interface {
	// offer is called with the first and the last change of one key that is not acknowledged. It acknowledges later, by answer, if it returns that it
	// waits. Else it has acknowledged the first, unless it returns an error. Only the first has an Object, and none has for one that queues.
	offer(ctx context.Context, first, last Change) (waits bool, err error)
	// queues says that it answers later, and wants to be offered what comes meanwhile.
	queues() bool
	reset(ctx context.Context, why store.ResetReason) error
	replayed(ctx context.Context) error
}

// maxWorks is how many keys may fail, or not be answered, before a handler stalls: the place in the file names each.
const maxWorks = 1000

// maxChanges is how many changes of one key may wait for the first of them, before a handler stalls: deletes of objects that were made anew each time.
const maxChanges = 100

// Failing keys are told again after this, doubled up to the maximum.
const (
	durableRetry    = 100 * time.Millisecond
	durableRetryMax = time.Minute
)

// work is what is offered of one key and not acknowledged, in order, without the objects: those are read again.
type work struct {
	changes []Change
	waiting bool // for an answer
	tries   int
	due     time.Time // when it is to be offered again, unless waiting
}

// add appends a change. It takes the place of the state before of the same object.
func (w *work) add(c Change) {
	if n := len(w.changes); n > 0 && w.changes[n-1].Type == Upsert && w.changes[n-1].UID == c.UID {
		w.changes = w.changes[:n-1]
	}
	c.Object = nil
	w.changes = append(w.changes, c)
}

// offer offers what is not acknowledged of a key until one change fails, or has to be waited for. read is the first with its object, or nil. It
// returns an error if a change can not be read.
func (d *durable) offer(ctx context.Context, key string, w *work, read *Change) error {
	for ; len(w.changes) > 0; read = nil {
		first, there, err := d.load(ctx, w.changes[0], read)
		if err != nil {
			return err
		}
		if !there {
			w.changes, d.stale = w.changes[1:], true
			continue
		}
		waits := false
		err = d.call(ctx, func() (err error) {
			waits, err = d.handler.offer(ctx, first, w.changes[len(w.changes)-1])
			return err
		})
		w.waiting = waits && err == nil
		switch {
		case err != nil:
			w.tries++
			w.due = d.informer.clock.Now().Add(retryDelay(w.tries))
			d.dueAt = earlier(d.dueAt, w.due)
			d.stale = true
			d.failed(ctx, key, err)
			return nil
		case waits:
			d.stale = true
			return nil
		}
		w.changes, w.tries = w.changes[1:], 0
	}
	d.finished(key)
	return nil
}

// load returns a change with its object, if the handler wants it, or read. It is not there if the object has changed since, which comes in its
// turn, or can not be decoded.
func (d *durable) load(ctx context.Context, c Change, read *Change) (_ Change, there bool, err error) {
	switch {
	case read != nil:
		return *read, true, nil
	case d.handler.queues():
		return c, true, nil
	}
	p, err := d.feed.Load(ctx, c)
	if err != nil {
		return c, false, err
	}
	d.reportUnreadable(ctx, p.Unreadable)
	if len(p.Changes) == 0 {
		return c, false, nil
	}
	return p.Changes[0], true, nil
}

// finished takes a key out of works.
func (d *durable) finished(key string) {
	delete(d.works, key)
	if _, named := d.place.Failing[key]; named {
		d.stale = true
	}
}

// retryDelay is durableRetry, doubled with each try, give or take a tenth.
func retryDelay(tries int) time.Duration {
	delay := durableRetryMax
	if tries < 16 {
		delay = min(delay, durableRetry<<(tries-1))
	}
	return delay + time.Duration((rand.Float64()-0.5)*0.2*float64(delay))
}

// call calls the handler. A panic is an error, and so is what is answered after the end: who was told to stop may return nil and have done nothing.
func (d *durable) call(ctx context.Context, fn func() error) (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
			if err == nil && ctx.Err() != nil {
				err = context.Cause(ctx)
			}
		case runtime.Error:
			err = &panicError{what: r.Error(), stack: string(debug.Stack())}
		default: // its text may hold what is in an object
			err = &panicError{what: fmt.Sprintf("a %T", r), stack: string(debug.Stack())}
		}
	}()
	return fn()
}

// panicError is a panic of a handler.
type panicError struct{ what, stack string }

func (e *panicError) Error() string { return "it panicked: " + e.what }

// callHandler offers to a DurableHandler, one change at a time.
type callHandler struct{ handler DurableHandler }

func (h *callHandler) offer(ctx context.Context, first, _ Change) (waits bool, err error) {
	return false, h.handler.OnChange(ctx, first)
}

func (h *callHandler) queues() bool { return false }

func (h *callHandler) reset(ctx context.Context, why store.ResetReason) error {
	return h.handler.OnReset(ctx, why)
}

func (h *callHandler) replayed(ctx context.Context) error { return h.handler.OnReplayed(ctx) }
