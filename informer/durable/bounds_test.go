package durable_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer/durable"
	"github.com/larder-dev/larder/store"
)

// endless is a collection in which one object after the other comes and goes under one key. It is a Cursor as well.
type endless struct{ read uint64 }

func (e *endless) OpenCursor(context.Context, string, bool) (durable.Cursor, error) { return e, nil }

func (*endless) ForgetCursor(context.Context, string) error { return nil }

func (*endless) RetainChanges(context.Context, time.Duration) error { return nil }

func (*endless) Position() (position store.Position, resets int, err error) { return position, 0, nil }

func (*endless) Acknowledge(store.Position, int) error { return nil }

func (e *endless) Read(_ context.Context, after uint64) (store.ChangelogPage, error) {
	e.read++
	c := store.ChangelogEntry{Type: entry.Delete, Key: "a/1", UID: fmt.Sprint(e.read), Seq: after + 1}
	return store.ChangelogPage{Changes: []store.ChangelogEntry{c}, End: c.Seq, More: true}, nil
}

func (*endless) Objects(context.Context, string, uint64) (p store.ChangelogPage, end string, err error) {
	return p, "", nil
}

func (*endless) Failing(context.Context, map[string]uint64, uint64) (p store.ChangelogPage, err error) {
	return p, nil
}

func (*endless) Load(_ context.Context, c store.ChangelogEntry) (store.ChangelogPage, error) {
	return store.ChangelogPage{Changes: []store.ChangelogEntry{c}}, nil
}

func (*endless) Changed() <-chan struct{} { return nil }

func (*endless) Close() {}

// TestHandlerHoldsSoManyChangesOfAKey: an object that is made and deleted again and again, while a first change of its
// key fails, does not pile up in memory without bound.
func TestHandlerHoldsSoManyChangesOfAKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		synced, e := make(chan struct{}), &endless{}
		handlers := durable.New(durable.Options{Description: "pods", Collection: e, Synced: synced, Clock: clock.RealClock{}})
		_, err := handlers.Add("h", durable.HandlerFuncs{ChangeFunc: func(context.Context, store.ChangelogEntry) error {
			return errors.New("refused")
		}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		handlers.Start(ctx)
		time.Sleep(time.Hour)
		synctest.Wait()
		if s := handlers.Status(0); len(s) != 1 || !s[0].Stalled || s[0].Failing != 1 || e.read > 101 {
			t.Errorf("it has read %d changes, status %+v", e.read, s)
		}
		cancel()
		handlers.Stop(ctx)()
		if _, err := handlers.Add("late", durable.HandlerFuncs{}); err == nil {
			t.Error("a handler was added after the end")
		}
	})
}
