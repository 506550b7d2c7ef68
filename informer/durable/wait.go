package durable

import (
	"context"
	"errors"
	"time"

	"k8s.io/klog/v2"

	"github.com/larder-dev/larder/store"
)

// answer acknowledges the changes of a key up to an offset. It does nothing once the run has ended: a worker that was
// stopped may report success without having done the work. Any goroutine may call it.
func (f *follower) answer(key string, at offset) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ctx == nil || f.ctx.Err() != nil {
		return
	}
	if f.answers == nil {
		f.answers = map[string]offset{}
	}
	if was := f.answers[key]; at.epoch > was.epoch || at.epoch == was.epoch && at.seq > was.seq {
		f.answers[key] = at
	}
	select {
	case f.answered <- struct{}{}:
	default:
	}
}

// attend takes the answers that have come, and offers the due keys again. It fails if the handler has been reset.
func (f *follower) attend(ctx context.Context) error {
	f.takeAnswers()
	if err := f.offerDue(ctx); err != nil {
		return err
	}
	if f.stale || f.unnoted {
		return f.acknowledge()
	}
	return nil
}

// takeAnswers takes the answers that have come. It ignores those from before a reset, whose changes come again.
func (f *follower) takeAnswers() {
	f.mu.Lock()
	answers := f.answers
	f.answers = nil
	f.mu.Unlock()
	for key, at := range answers {
		w := f.works[key]
		if w == nil || at.epoch != f.resets {
			continue
		}
		for len(w.changes) > 0 && w.changes[0].Seq <= at.seq {
			w.changes = w.changes[1:]
			f.stale = true
		}
		if len(w.changes) == 0 {
			f.finished(key)
		}
	}
}

// offerDue offers the keys again that are due.
func (f *follower) offerDue(ctx context.Context) error {
	now := f.o.Clock.Now()
	if f.dueAt.IsZero() || f.dueAt.After(now) {
		return nil
	}
	f.dueAt = time.Time{}
	for key, w := range f.works {
		switch {
		case w.waiting:
		case w.due.After(now):
			f.dueAt = earlier(f.dueAt, w.due)
		default:
			if err := f.offer(ctx, key, w, nil); err != nil {
				return err
			}
		}
	}
	return nil
}

// earlier returns the earlier of two times; the zero time means never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// awaitUntil waits until changed is closed, an answer has come, a key is due, or at, and calls attend. changed may be
// nil, and at zero for no limit. It fails with store.ErrReset if the handler has been reset.
func (f *follower) awaitUntil(ctx context.Context, changed <-chan struct{}, at time.Time) error {
	if at = earlier(at, f.dueAt); f.unnoted {
		at = earlier(at, f.notedAt.Add(noteWithin))
	}
	var due <-chan time.Time
	if !at.IsZero() {
		t := f.o.Clock.NewTimer(at.Sub(f.o.Clock.Now()))
		defer t.Stop()
		due = t.C()
	}
	var synced <-chan struct{}
	if !isDone(f.o.Synced) {
		synced = f.o.Synced
	}
	select {
	case <-changed:
	case <-f.answered:
	case <-due:
	case <-synced:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if _, resets, err := f.cursor.Position(); err != nil || resets != f.resets {
		return errors.Join(err, store.ErrReset)
	}
	return f.attend(ctx)
}

// flush is called when all committed changes have been read. The first time after the informer has synced it flushes
// the store, and returns true, because there may be more to read. Once that has been read, the handler has synced too.
func (f *follower) flush(ctx context.Context) (more bool) {
	switch now := f.o.Clock.Now(); {
	case f.flushed:
		f.markSynced()
		return false
	case !isDone(f.o.Synced), now.Before(f.flushAt):
		return false
	case f.o.Flush(ctx) != nil: // the store logs the error
		f.flushAt = now.Add(time.Second)
		return false
	}
	f.flushed, f.flushAt = true, time.Time{}
	return true
}

// stallLogged is how long a handler may be stalled before that is logged. A handler that queues is stalled for moments
// whenever many keys are due.
const stallLogged = time.Minute

func (f *follower) logStalled(ctx context.Context) {
	klog.FromContext(ctx).Error(errStalled, "A durable handler is told of nothing more until it has acknowledged some "+
		"of it. Workers of a queue acknowledge by Forget and Done, "+
		"a controller by the Reconciler of its source", "handler", f.name, "keys", len(f.works), "type", f.o.Description)
}

var errStalled = errors.New("too many keys are not acknowledged")
