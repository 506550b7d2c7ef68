package durable

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
	// offer is called with the first and the last change of one key that is not acknowledged. It acknowledges later, by
	// answer, if it returns that it waits. Else it has acknowledged the first, unless it returns an error. Only the first
	// has an Object, and none has for one that queues.
	offer(ctx context.Context, first, last store.FeedChange) (waits bool, err error)
	// queues says that it answers later, and wants to be offered what comes meanwhile.
	queues() bool
	reset(ctx context.Context, why store.ResetReason) error
	replayed(ctx context.Context) error
}

// maxWorks is how many keys may fail, or not be answered, before a handler stalls: the place in the file names each.
const maxWorks = 1000

// maxChanges is how many changes of one key may wait for the first of them, before a handler stalls: deletes of
// objects that were made anew each time.
const maxChanges = 100

const (
	// Failing keys are told again after retry, doubled up to retryMax.
	retry    = 100 * time.Millisecond
	retryMax = time.Minute
	// A file that cannot be read is tried again after readRetry, doubled up to readRetryMax.
	readRetry    = 200 * time.Millisecond
	readRetryMax = 10 * time.Second
)

// work is what is offered of one key and not acknowledged, in order, without the objects: those are read again.
type work struct {
	changes []store.FeedChange
	waiting bool // for an answer
	tries   int
	due     time.Time // when it is to be offered again, unless waiting
}

// add appends a change. It takes the place of the state before of the same object.
func (w *work) add(c store.FeedChange) {
	if n := len(w.changes); n > 0 && w.changes[n-1].Type == store.Upsert && w.changes[n-1].UID == c.UID {
		w.changes = w.changes[:n-1]
	}
	c.Object = nil
	w.changes = append(w.changes, c)
}

// offer offers what is not acknowledged of a key until one change fails, or has to be waited for. read is the first
// with its object, or nil. It returns an error if a change cannot be read.
func (f *follower) offer(ctx context.Context, key string, w *work, read *store.FeedChange) error {
	for ; len(w.changes) > 0; read = nil {
		first, there, err := f.load(ctx, w.changes[0], read)
		if err != nil {
			return err
		}
		if !there {
			w.changes, f.stale = w.changes[1:], true
			continue
		}
		waits := false
		err = f.call(ctx, func() (err error) {
			waits, err = f.handler.offer(ctx, first, w.changes[len(w.changes)-1])
			return err
		})
		w.waiting = waits && err == nil
		switch {
		case err != nil:
			w.tries++
			w.due = f.o.Clock.Now().Add(delay(w.tries, retry, retryMax))
			f.dueAt = earlier(f.dueAt, w.due)
			f.stale = true
			f.failed(ctx, key, err)
			return nil
		case waits:
			f.stale = true
			return nil
		}
		w.changes, w.tries = w.changes[1:], 0
	}
	f.finished(key)
	return nil
}

// load returns a change with its object, if the handler wants it, or read. It is not there if the object has changed
// since, which comes in its turn, or cannot be decoded.
func (f *follower) load(
	ctx context.Context, c store.FeedChange, read *store.FeedChange,
) (_ store.FeedChange, there bool, err error) {
	switch {
	case read != nil:
		return *read, true, nil
	case f.handler.queues():
		return c, true, nil
	}
	p, err := f.feed.Load(ctx, c)
	if err != nil {
		return c, false, err
	}
	f.reportUnreadable(ctx, p.Unreadable)
	if len(p.Changes) == 0 {
		return c, false, nil
	}
	return p.Changes[0], true, nil
}

// finished takes a key out of works.
func (f *follower) finished(key string) {
	delete(f.works, key)
	if _, named := f.place.Failing[key]; named {
		f.stale = true
	}
}

// delay is first, doubled with each try up to most, give or take a tenth.
func delay(tries int, first, most time.Duration) time.Duration {
	d := most
	if tries < 16 {
		d = min(most, first<<(tries-1))
	}
	return d + time.Duration((rand.Float64()-0.5)*0.2*float64(d))
}

// call calls the handler. A panic is an error, and so is what is answered after the end: who was told to stop may
// return nil and have done nothing.
func (f *follower) call(ctx context.Context, fn func() error) (err error) {
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

// callHandler offers to a Handler, one change at a time.
type callHandler struct{ handler Handler }

func (h *callHandler) offer(ctx context.Context, first, _ store.FeedChange) (waits bool, err error) {
	return false, h.handler.OnChange(ctx, first)
}

func (h *callHandler) queues() bool { return false }

func (h *callHandler) reset(ctx context.Context, why store.ResetReason) error {
	return h.handler.OnReset(ctx, why)
}

func (h *callHandler) replayed(ctx context.Context) error { return h.handler.OnReplayed(ctx) }
