package durable

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"time"

	"k8s.io/klog/v2"

	"github.com/larder-dev/larder/internal/base"
	"github.com/larder-dev/larder/store"
	"github.com/larder-dev/larder/store/consumer"
)

const (
	// maxWorks is the number of keys with unacknowledged changes at which the handler stalls. It bounds the handler's
	// position in the file, which lists these keys.
	maxWorks = 1000
	// stallLogged is how long a handler must be stalled before a line is logged. A handler that queues keys stalls for
	// moments whenever many keys are due.
	stallLogged = time.Minute
	// noteWithin is how long a handler that queues keys delays passing its position to the store. Each change and each
	// acknowledgement moves the position, which lists up to maxWorks keys.
	noteWithin = 20 * time.Millisecond
	// A failed read of the file is repeated after readRetry, doubled up to readRetryMax.
	readRetry    = 200 * time.Millisecond
	readRetryMax = 10 * time.Second
)

// run delivers the changelog until ctx ends or the store is closed.
func (f *follower) run(ctx context.Context) {
	for tries := 1; ; tries++ {
		err := f.follow(ctx)
		switch {
		case ctx.Err() != nil, errors.Is(err, store.ErrClosed), errors.Is(err, consumer.ErrNone):
			return
		case errors.Is(err, consumer.ErrReset):
			klog.FromContext(ctx).Info("A durable handler begins anew", "handler", f.name, "type", f.o.Description)
			tries = 0
			continue
		}
		f.note(func(s *Status) { s.Err = err })
		if base.Sleep(ctx, f.o.Clock, delay(tries, readRetry, readRetryMax)) != nil {
			return
		}
	}
}

// follow delivers changes to the handler, beginning at its stored position. It returns when the handler has been reset
// or the file cannot be read.
func (f *follower) follow(ctx context.Context) (err error) {
	if err := f.resume(ctx); err != nil {
		return err
	}
	defer func() { // changes whose acknowledgement is not stored are repeated by the next run
		if f.takeAnswers(); f.unnoted {
			err = errors.Join(err, f.notePosition())
		}
	}()
	if f.position.Replaying && !f.position.Notified {
		if err := f.insist(ctx, func() error { return f.handler.OnReset(ctx, f.position.Why) }); err != nil {
			return err
		}
		f.position.Notified = true
		if err := f.notePosition(); err != nil {
			return err
		}
	}
	for {
		changed := f.cursor.Changed()
		more, err := f.page(ctx)
		if err != nil {
			return err
		}
		if more || f.flush(ctx) {
			continue
		}
		if err := f.awaitUntil(ctx, changed, f.flushAt); err != nil {
			return err
		}
	}
}

// resume reads the handler's stored position. Keys whose changes were not acknowledged are due at once.
func (f *follower) resume(ctx context.Context) (err error) {
	if f.position, f.resets, err = f.cursor.Position(); err != nil {
		return err
	}
	f.beginEpoch()
	f.checkTypes()
	f.works, f.unnoted, f.dueAt = map[string]*work{}, false, time.Time{}
	f.note(func(s *Status) { *s = statusAt(f.position) })
	for key, from := range f.position.Failing {
		f.dueAt = f.o.Clock.Now()
		f.works[key] = &work{from: from, last: f.position.Seq, due: f.dueAt}
	}
	return f.attend(ctx)
}

// checkTypes makes the handler start over if it received the objects in other Go types and no list will report the
// differences.
func (f *follower) checkTypes() {
	p := &f.position
	if f.o.AsSent && p.Types != "" && p.Types != f.o.Types {
		p.Replaying, p.After, p.Notified, p.Why = true, "", false, consumer.ResetTypes
	}
	p.Types = f.o.Types
}

// page reads the page of the changelog at the handler's position, delivers its changes, and moves the position to its
// end. more means that another page follows.
func (f *follower) page(ctx context.Context) (more bool, err error) {
	p, next, err := f.cursor.Read(ctx, f.position)
	if err != nil {
		return false, err
	}
	f.reportUnreadable(ctx, p.Unreadable)
	for _, c := range p.Changes {
		if err := f.take(ctx, c); err != nil {
			return false, err
		}
	}
	if f.position.Replaying && !next.Replaying {
		if err := f.insist(ctx, func() error { return f.handler.OnReplayed(ctx) }); err != nil {
			return false, err
		}
	}
	f.unnoted = f.unnoted || f.position.Replaying || f.position.Seq != next.Seq
	f.position.Seq, f.position.After, f.position.Replaying = next.Seq, next.After, next.Replaying
	return p.More, f.noteDue()
}

// take calls the handler for a change, unless earlier changes of the same key are unacknowledged, and moves the
// position past the change. It waits while the maximum number of keys has unacknowledged changes.
func (f *follower) take(ctx context.Context, c consumer.Change) error {
	if err := f.awaitCapacity(ctx, c.Key); err != nil {
		return err
	}
	w := f.works[c.Key]
	switch {
	case w == nil:
		w = &work{from: c.Seq, last: c.Seq}
		if !f.try(ctx, w, c) {
			f.works[c.Key] = w
		}
	case f.queues:
		w.last = c.Seq
		f.try(ctx, w, c)
	}
	if f.position.Replaying {
		f.position.After = c.Key
	} else {
		f.position.Seq = c.Seq
	}
	f.unnoted = true
	return f.noteDue()
}

// awaitCapacity waits while the maximum number of other keys has unacknowledged changes: if a call for key failed then,
// the stored position could not list key.
func (f *follower) awaitCapacity(ctx context.Context, key string) error {
	logAt := f.o.Clock.Now().Add(stallLogged)
	for f.works[key] == nil && len(f.works) >= maxWorks {
		f.note(func(s *Status) { s.Stalled = true })
		if f.queues {
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
	return errors.Join(f.attend(ctx), ctx.Err())
}

// attend applies the acknowledgements received from workers so far, and calls the handler again for the keys that are
// due. It fails if the handler has been reset.
func (f *follower) attend(ctx context.Context) error {
	f.takeAnswers()
	now := f.o.Clock.Now()
	if !f.dueAt.IsZero() && !f.dueAt.After(now) {
		f.dueAt = time.Time{}
		for key, w := range f.works {
			if !w.due.IsZero() && !w.due.After(now) {
				if err := f.retry(ctx, key, w); err != nil {
					return err
				}
			} else {
				f.dueAt = earlier(f.dueAt, w.due)
			}
		}
	}
	return f.noteDue()
}

// noteDue passes a moved position to the store; if the handler queues keys, at most once per noteWithin.
func (f *follower) noteDue() error {
	if !f.unnoted || f.queues && f.o.Clock.Since(f.notedAt) < noteWithin {
		return nil
	}
	return f.notePosition()
}

// notePosition passes the position to the store, which writes it with the next commit.
func (f *follower) notePosition() error {
	f.unnoted, f.notedAt = false, f.o.Clock.Now()
	f.position.Failing = make(map[string]uint64, len(f.works))
	for key, w := range f.works {
		f.position.Failing[key] = w.from
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

// awaitUntil waits until changed is closed, a worker acknowledges a key, a key is due, or the time is at. Then it calls
// attend. changed may be nil, and a zero at means no limit. It fails with consumer.ErrReset if the handler has been
// reset.
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
		return errors.Join(err, consumer.ErrReset)
	}
	return f.attend(ctx)
}

// flush is called when all committed changes have been read. On the first call after the informer has synced it flushes
// the store and returns true, because the commit may add changes to read. The next call marks the handler as synced.
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

var errStalled = errors.New("too many keys are not acknowledged")

func (f *follower) logStalled(ctx context.Context) {
	klog.FromContext(ctx).Error(errStalled, "A durable handler gets no more changes until it has acknowledged some of "+
		"them. Workers acknowledge by the function that Keys.Begin returns, a controller by the Reconciler of its source",
		"handler", f.name, "keys", len(f.works), "type", f.o.Description)
}

func (f *follower) reportUnreadable(ctx context.Context, keys []string) {
	for _, key := range keys {
		klog.FromContext(ctx).Info("A durable handler does not receive an object that this program cannot decode; "+
			"it will when the object changes", "handler", f.name, "key", key, "type", f.o.Description)
	}
}

// A failed call is repeated after callRetry, doubled with each failure up to callRetryMax.
const (
	callRetry    = 100 * time.Millisecond
	callRetryMax = time.Minute
)

// try calls the handler for the change c, and notes a failure in w, the unacknowledged changes of c's key. It returns
// true if the change is acknowledged.
func (f *follower) try(ctx context.Context, w *work, c consumer.Change) (acknowledged bool) {
	if f.queues {
		f.mu.Lock()
		f.offered[c.Key] = c.Seq
		f.mu.Unlock()
	}
	err := f.call(ctx, func() error { return f.handler.OnChange(ctx, c) })
	if w.due = (time.Time{}); err != nil {
		w.tries++
		w.due = f.o.Clock.Now().Add(delay(w.tries, callRetry, callRetryMax))
		f.dueAt = earlier(f.dueAt, w.due)
		f.failed(ctx, c.Key, w.tries, err)
		return false
	}
	w.tries = 0
	return !f.queues
}

// retry calls the handler for the unacknowledged changes of one key, oldest first, until a call fails or all are
// acknowledged. It reads the changes from the file, and returns an error only if reading fails. A handler that queues
// keys is called once, with the key.
func (f *follower) retry(ctx context.Context, key string, w *work) error {
	f.unnoted = true
	if f.queues {
		f.try(ctx, w, consumer.Change{Key: key, Seq: w.last})
		return nil
	}
	for {
		p, err := f.cursor.Next(ctx, key, w.from, f.position.Seq)
		if err != nil {
			return err
		}
		if p.End == 0 { // all changes are acknowledged, or a change after the position has replaced them
			delete(f.works, key)
			return nil
		}
		w.from = p.End
		f.reportUnreadable(ctx, p.Unreadable)
		for _, c := range p.Changes {
			if !f.try(ctx, w, c) {
				return nil
			}
		}
		w.from++
	}
}

// insist calls fn until it returns nil. In between it calls the handler again for due keys whose earlier calls failed.
func (f *follower) insist(ctx context.Context, fn func() error) error {
	for tries := 1; ; tries++ {
		err := f.call(ctx, fn)
		if err == nil {
			return nil
		}
		f.failed(ctx, "", 1, err)
		at := f.o.Clock.Now().Add(delay(tries, callRetry, callRetryMax))
		for f.o.Clock.Now().Before(at) {
			if err := f.awaitUntil(ctx, nil, at); err != nil {
				return err
			}
		}
	}
}

// call calls the handler and turns a panic into an error. If ctx has ended it returns an error even if the handler
// returns nil: a canceled handler may return nil without having done its work.
func (f *follower) call(ctx context.Context, fn func() error) (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
			if err == nil && ctx.Err() != nil {
				err = context.Cause(ctx)
			}
		case runtime.Error:
			err = &panicError{what: r.Error(), stack: string(debug.Stack())}
		default: // the text of the value may contain object content
			err = &panicError{what: fmt.Sprintf("a %T", r), stack: string(debug.Stack())}
		}
	}()
	return fn()
}

type panicError struct{ what, stack string }

func (e *panicError) Error() string { return "it panicked: " + e.what }

// failed sets Status.Err to an error of the handler for a key, or, with key "", of OnReset or OnReplayed. It logs only
// the first error of a series.
func (f *follower) failed(ctx context.Context, key string, tries int, err error) {
	if ctx.Err() != nil {
		return
	}
	f.note(func(s *Status) { s.Err = fmt.Errorf("durable handler %q: %w", f.name, err) })
	if tries > 1 {
		return
	}
	about := []any{"handler", f.name, "key", key, "type", f.o.Description}
	if p := (*panicError)(nil); errors.As(err, &p) {
		about = append(about, "stack", p.stack)
	}
	klog.FromContext(ctx).Error(err, "A durable handler has failed, and will be called again", about...)
}

// delay returns the wait after failed tries: first, doubled with each try up to most, give or take ten percent.
func delay(tries int, first, most time.Duration) time.Duration {
	d := most
	if tries < 16 {
		d = min(most, first<<(tries-1))
	}
	return d + time.Duration((rand.Float64()-0.5)*0.2*float64(d))
}

// earlier returns the earlier of two times; the zero time means never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
