package informer

import (
	"context"
	"errors"
	"time"

	"k8s.io/klog/v2"

	"github.com/larder-dev/larder/store"
)

// answer acknowledges what was offered of a key up to an offset, unless the run has ended: who was told to stop may say so and have done nothing.
// Any goroutine may call it.
func (d *durable) answer(key string, at offset) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ended == nil || d.ended() != nil {
		return
	}
	if d.answers == nil {
		d.answers = map[string]offset{}
	}
	if was := d.answers[key]; at.epoch > was.epoch || at.epoch == was.epoch && at.seq > was.seq {
		d.answers[key] = at
	}
	select {
	case d.answered <- struct{}{}:
	default:
	}
}

// attend takes the answers that have come, and offers again what is due. It fails if the handler has been set back.
func (d *durable) attend(ctx context.Context) error {
	d.takeAnswers()
	if err := d.offerDue(ctx); err != nil {
		return err
	}
	if d.stale || d.unnoted {
		return d.acknowledge()
	}
	return nil
}

// takeAnswers takes the answers that have come. Those of before a reset are void: what they were about comes again.
func (d *durable) takeAnswers() {
	d.mu.Lock()
	answers := d.answers
	d.answers = nil
	d.mu.Unlock()
	for key, at := range answers {
		w := d.works[key]
		if w == nil || at.epoch != d.resets {
			continue
		}
		for len(w.changes) > 0 && w.changes[0].Seq <= at.seq {
			w.changes = w.changes[1:]
			d.stale = true
		}
		if len(w.changes) == 0 {
			d.finished(key)
		}
	}
}

// offerDue offers again what is due.
func (d *durable) offerDue(ctx context.Context) error {
	now := d.informer.clock.Now()
	if d.dueAt.IsZero() || d.dueAt.After(now) {
		return nil
	}
	d.dueAt = time.Time{}
	for key, w := range d.works {
		switch {
		case w.waiting:
		case w.due.After(now):
			d.dueAt = earlier(d.dueAt, w.due)
		default:
			if err := d.offer(ctx, key, w, nil); err != nil {
				return err
			}
		}
	}
	return nil
}

// earlier returns the earlier of two times, of which zero is never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// awaitUntil waits until something has been committed, or answered, or is due, at the latest until at, and attends to it. changed may be nil, and at zero.
func (d *durable) awaitUntil(ctx context.Context, changed <-chan struct{}, at time.Time) error {
	if at = earlier(at, d.dueAt); d.unnoted {
		at = earlier(at, d.notedAt.Add(noteWithin))
	}
	var due <-chan time.Time
	if !at.IsZero() {
		t := d.informer.clock.NewTimer(at.Sub(d.informer.clock.Now()))
		defer t.Stop()
		due = t.C()
	}
	var synced <-chan struct{}
	if !d.informer.HasSynced() {
		synced = d.informer.synced
	}
	select {
	case <-changed:
	case <-d.answered:
	case <-due:
	case <-synced:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if _, resets, err := d.feed.Place(); err != nil || resets != d.resets {
		return errors.Join(err, store.ErrReset)
	}
	return d.attend(ctx)
}

// flush is called when everything has been read that is committed. Once the informer has synced it commits what came before, and
// reports that there may be more to read; when that has been read the handler has synced too.
func (d *durable) flush(ctx context.Context) (more bool) {
	switch now := d.informer.clock.Now(); {
	case d.flushed:
		d.markSynced()
		return false
	case !d.informer.HasSynced(), now.Before(d.flushAt):
		return false
	case d.informer.o.Store.Flush(ctx) != nil: // the store says why, and tries again
		d.flushAt = now.Add(time.Second)
		return false
	}
	d.flushed, d.flushAt = true, time.Time{}
	return true
}

// stallLogged is how long a handler may be stalled until that is logged: one that queues is, for moments, whenever much is due.
const stallLogged = time.Minute

func (d *durable) logStalled(ctx context.Context) {
	klog.FromContext(ctx).Error(errStalled, "A durable handler is told of nothing more until it has acknowledged some of it. Workers of a queue acknowledge by Forget and Done, "+
		"a controller by the Reconciler of its source", "handler", d.name, "keys", len(d.works), "type", d.informer.o.ObjectDescription)
}

var errStalled = errors.New("too many keys are not acknowledged")
