package durable

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/klog/v2"

	"github.com/larder-dev/larder/internal/patient"
	"github.com/larder-dev/larder/store"
)

// run delivers the changelog until ctx ends or the store is closed.
func (f *follower) run(ctx context.Context) {
	for tries := 1; ; tries++ {
		err := f.follow(ctx)
		switch {
		case ctx.Err() != nil, errors.Is(err, store.ErrClosed), errors.Is(err, store.ErrNoCursor):
			return
		case errors.Is(err, store.ErrReset):
			klog.FromContext(ctx).Info("A durable handler begins anew", "handler", f.name, "type", f.o.Description)
			tries = 0
			continue
		}
		f.note(func(s *Status) { s.Err = err })
		if patient.Sleep(ctx, f.o.Clock, delay(tries, readRetry, readRetryMax)) != nil {
			return
		}
	}
}

// follow delivers changes from the stored cursor on. It returns when the handler has been reset or the file cannot be
// read.
func (f *follower) follow(ctx context.Context) (err error) {
	if f.position, f.resets, err = f.cursor.Position(); err != nil {
		return err
	}
	f.works, f.stale = map[string]*work{}, false
	defer func() { err = errors.Join(err, f.noteLast()) }()
	f.note(func(s *Status) { *s = statusAt(f.position) })
	if err := f.recall(ctx); err != nil {
		return err
	}
	if f.position.Replaying {
		if err := f.replay(ctx); err != nil {
			return err
		}
	}
	for {
		changed := f.cursor.Changed()
		p, err := f.cursor.Read(ctx, f.position.Seq)
		if err != nil {
			return err
		}
		f.reportUnreadable(ctx, p.Unreadable)
		for _, c := range p.Changes {
			if err := f.take(ctx, c, func() { f.position.Seq = c.Seq }); err != nil {
				return err
			}
		}
		if f.position.Seq < p.End {
			f.position.Seq = p.End
			if err := f.acknowledge(); err != nil {
				return err
			}
		}
		if p.More || f.flush(ctx) {
			continue
		}
		if err := f.awaitUntil(ctx, changed, f.flushAt); err != nil {
			return err
		}
	}
}

// recall offers the changes again that an earlier run delivered and that were not acknowledged.
func (f *follower) recall(ctx context.Context) error {
	if len(f.position.Failing) == 0 {
		return nil
	}
	p, err := f.cursor.Failing(ctx, f.position.Failing, f.position.Seq)
	if err != nil {
		return err
	}
	f.stale = true
	for _, c := range p.Changes {
		w := f.works[c.Key]
		if w == nil {
			w = &work{}
			f.works[c.Key] = w
		}
		w.add(c)
	}
	for key, w := range f.works {
		if err := f.offer(ctx, key, w, nil); err != nil {
			return err
		}
	}
	return f.acknowledge()
}

// replay delivers every object that has not changed since the handler was reset. The others come later, as changes
// behind its cursor.
func (f *follower) replay(ctx context.Context) error {
	if !f.position.Told {
		if err := f.insist(ctx, func() error { return f.handler.reset(ctx, f.position.Why) }); err != nil {
			return err
		}
		f.position.Told = true
		if err := f.acknowledge(); err != nil {
			return err
		}
	}
	for more := true; more; {
		p, end, err := f.cursor.Objects(ctx, f.position.After, f.position.Seq)
		if err != nil {
			return err
		}
		f.reportUnreadable(ctx, p.Unreadable)
		for _, c := range p.Changes {
			if err := f.take(ctx, c, func() { f.position.After = c.Key }); err != nil {
				return err
			}
		}
		if more = p.More; more {
			f.position.After = end
		}
	}
	if err := f.insist(ctx, func() error { return f.handler.replayed(ctx) }); err != nil {
		return err
	}
	f.position.Replaying, f.position.After = false, ""
	return f.acknowledge()
}

// insist calls fn until it returns nil, and offers due keys again meanwhile.
func (f *follower) insist(ctx context.Context, fn func() error) error {
	for tries := 1; ; tries++ {
		err := f.call(ctx, fn)
		if err == nil {
			return nil
		}
		f.failed(ctx, "", err)
		at := f.o.Clock.Now().Add(delay(tries, retry, retryMax))
		for f.o.Clock.Now().Before(at) {
			if err := f.awaitUntil(ctx, nil, at); err != nil {
				return err
			}
		}
	}
}

// take adds a change to works, offers it unless an earlier change of its key is unacknowledged, and moves the cursor
// past it. It waits while works is full.
func (f *follower) take(ctx context.Context, c store.ChangelogEntry, pass func()) error {
	for logAt := f.o.Clock.Now().Add(stallLogged); f.full(c.Key); {
		f.note(func(s *Status) { s.Stalled = true })
		if f.handler.queues() {
			f.markSynced() // a controller's workers start when all sources have synced; before that no key is done
		}
		if !logAt.IsZero() && !f.o.Clock.Now().Before(logAt) {
			logAt = time.Time{}
			f.logStalled(ctx)
		}
		if err := f.awaitUntil(ctx, nil, logAt); err != nil {
			return err
		}
	}
	if err := errors.Join(f.attend(ctx), ctx.Err()); err != nil {
		return err
	}
	w := f.works[c.Key]
	fresh := w == nil
	if fresh {
		w = &work{}
		f.works[c.Key] = w
	} else {
		f.stale = true
	}
	w.add(c)
	if fresh || w.waiting && f.handler.queues() {
		var read *store.ChangelogEntry
		if fresh {
			read = &c
		}
		if err := f.offer(ctx, c.Key, w, read); err != nil {
			return err
		}
	}
	pass()
	return f.acknowledge()
}

// full reports whether take must wait before it adds a change of the key.
func (f *follower) full(key string) bool {
	if w := f.works[key]; w != nil {
		return len(w.changes) >= maxChanges
	}
	return len(f.works) >= maxWorks
}

// A handler that queues keys may have many unacknowledged ones, and each change and each answer changes the set. Beyond
// manyWorks keys the cursor is passed to the store once in noteWithin.
const (
	manyWorks  = 64
	noteWithin = 20 * time.Millisecond
)

// acknowledge passes the cursor to the store, which writes it with the next commit, or sets unnoted to do that later.
func (f *follower) acknowledge() error {
	f.unnoted = f.stale && f.handler.queues() && len(f.works) > manyWorks && f.o.Clock.Since(f.notedAt) < noteWithin
	if f.unnoted {
		return nil
	}
	return f.notePosition()
}

// notePosition passes the cursor to the store, which writes it with the next commit.
func (f *follower) notePosition() error {
	f.unnoted, f.notedAt = false, f.o.Clock.Now()
	if f.stale {
		f.position.Failing = make(map[string]uint64, len(f.works))
		for key, w := range f.works {
			f.position.Failing[key] = w.changes[0].Seq
		}
		f.stale = false
	}
	err := f.cursor.Acknowledge(f.position, f.resets)
	f.note(func(s *Status) {
		s.Seq, s.Failing, s.Replaying, s.Reset = f.position.Seq, len(f.works), f.position.Replaying, f.position.Why
		s.Stalled = len(f.works) >= maxWorks
		if len(f.works) == 0 {
			s.Err = nil
		}
	})
	return err
}

// noteLast takes the last answers and passes the cursor to the store, so that changes that were acknowledged before the
// end are not delivered again.
func (f *follower) noteLast() error {
	f.takeAnswers()
	if f.stale || f.unnoted {
		return f.notePosition()
	}
	return nil
}

// failed records an error of the handler in the status: for a key, or, with key "", of OnReset or OnReplayed. It logs
// only the first error of a key in a row.
func (f *follower) failed(ctx context.Context, key string, err error) {
	if ctx.Err() != nil {
		return
	}
	f.note(func(s *Status) { s.Err = fmt.Errorf("durable handler %q: %w", f.name, err) })
	if w := f.works[key]; w != nil && w.tries > 1 {
		return
	}
	about := []any{"handler", f.name, "key", key, "type", f.o.Description}
	if p := (*panicError)(nil); errors.As(err, &p) {
		about = append(about, "stack", p.stack)
	}
	klog.FromContext(ctx).Error(err, "A durable handler has failed, and will be called again", about...)
}

func (f *follower) reportUnreadable(ctx context.Context, keys []string) {
	for _, key := range keys {
		klog.FromContext(ctx).Info("A durable handler is not told of an object that this program cannot decode; "+
			"it will be when the object changes", "handler", f.name, "key", key, "type", f.o.Description)
	}
}
