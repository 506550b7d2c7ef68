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

	"github.com/larder-dev/larder/store/consumer"
)

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
