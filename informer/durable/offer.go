package durable

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store"
)

// offerer receives changes and acknowledges each of them, at once or later.
type offerer interface {
	// offer delivers the oldest and the newest unacknowledged change of one key; they may be the same. If it returns
	// (false, nil), first is acknowledged. If it returns waits, the offerer acknowledges later, by follower.answer. After
	// an error the change is offered again. Only first has an Object, and it has none if queues returns true.
	offer(ctx context.Context, first, last store.ChangelogEntry) (waits bool, err error)
	// queues reports whether the offerer acknowledges later. If so, newer changes of a key are offered while older ones
	// are unacknowledged.
	queues() bool
	reset(ctx context.Context, why store.ResetReason) error
	replayed(ctx context.Context) error
}

// maxWorks is how many keys may have unacknowledged changes before the handler stalls. It bounds the handler's position
// in the file, which lists these keys.
const maxWorks = 1000

// maxChanges is how many unacknowledged changes one key may have before the handler stalls. A key has several if its
// object is deleted and created again.
const maxChanges = 100

const (
	// Failing keys are told again after retry, doubled up to retryMax.
	retry    = 100 * time.Millisecond
	retryMax = time.Minute
	// A file that cannot be read is tried again after readRetry, doubled up to readRetryMax.
	readRetry    = 200 * time.Millisecond
	readRetryMax = 10 * time.Second
)

// work holds the unacknowledged changes of one key, oldest first. They have no Object: it is read again when needed.
type work struct {
	changes []store.ChangelogEntry
	waiting bool      // the handler acknowledges later
	tries   int       // failed attempts to offer the oldest change
	due     time.Time // of the next attempt, unless waiting
}

// add appends a change. It replaces the last change if that is an upsert of the same object (same UID).
func (w *work) add(c store.ChangelogEntry) {
	if n := len(w.changes); n > 0 && w.changes[n-1].Type == entry.Upsert && w.changes[n-1].UID == c.UID {
		w.changes = w.changes[:n-1]
	}
	c.Object = nil
	w.changes = append(w.changes, c)
}

// offer offers the unacknowledged changes of a key, oldest first, until the handler fails or acknowledges later. read
// is the oldest change with its object, or nil. It returns an error only if a change cannot be read from the file.
func (f *follower) offer(ctx context.Context, key string, w *work, read *store.ChangelogEntry) error {
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

// load returns read if it is not nil, and otherwise c with its object, which is read from the file unless the handler
// queues keys. there is false if the object cannot be decoded, or has changed since: the newer change comes later.
func (f *follower) load(
	ctx context.Context, c store.ChangelogEntry, read *store.ChangelogEntry,
) (_ store.ChangelogEntry, there bool, err error) {
	switch {
	case read != nil:
		return *read, true, nil
	case f.handler.queues():
		return c, true, nil
	}
	p, err := f.cursor.Load(ctx, c)
	if err != nil {
		return c, false, err
	}
	f.reportUnreadable(ctx, p.Unreadable)
	if len(p.Changes) == 0 {
		return c, false, nil
	}
	return p.Changes[0], true, nil
}

// finished removes a key from works: all of its changes are acknowledged.
func (f *follower) finished(key string) {
	delete(f.works, key)
	if _, named := f.position.Failing[key]; named {
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

// call calls the handler and turns a panic into an error. If ctx has ended it returns an error even if the handler
// returns nil: a handler that was told to stop may return nil without having done its work.
func (f *follower) call(ctx context.Context, fn func() error) (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
			if err == nil && ctx.Err() != nil {
				err = context.Cause(ctx)
			}
		case runtime.Error:
			err = &panicError{what: r.Error(), stack: string(debug.Stack())}
		default: // only its type, since its text may contain object content
			err = &panicError{what: fmt.Sprintf("a %T", r), stack: string(debug.Stack())}
		}
	}()
	return fn()
}

// panicError is a panic of a handler.
type panicError struct{ what, stack string }

func (e *panicError) Error() string { return "it panicked: " + e.what }

// callHandler is the offerer that calls a Handler, one change at a time.
type callHandler struct{ handler Handler }

func (h *callHandler) offer(ctx context.Context, first, _ store.ChangelogEntry) (waits bool, err error) {
	return false, h.handler.OnChange(ctx, first)
}

func (h *callHandler) queues() bool { return false }

func (h *callHandler) reset(ctx context.Context, why store.ResetReason) error {
	return h.handler.OnReset(ctx, why)
}

func (h *callHandler) replayed(ctx context.Context) error { return h.handler.OnReplayed(ctx) }
