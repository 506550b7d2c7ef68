package source

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/store/consumer"
)

// fakeInformer is an Informer with one event handler, which the test calls.
type fakeInformer struct {
	synced, replayed done
	handler          chan cache.ResourceEventHandler
	removed          bool
}

type done chan struct{}

func (d done) Name() string                        { return "done" }
func (d done) Done() <-chan struct{}               { return d }
func (d done) HasSynced() bool                     { return true }
func (d done) HasSyncedChecker() cache.DoneChecker { return d }

func newFakeInformer() *fakeInformer {
	return &fakeInformer{synced: make(done), replayed: make(done), handler: make(chan cache.ResourceEventHandler, 1)}
}

func (f *fakeInformer) AddEventHandler(h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	f.handler <- h
	return f.replayed, nil
}

func (f *fakeInformer) RemoveEventHandler(cache.ResourceEventHandlerRegistration) error {
	f.removed = true
	return nil
}

func (f *fakeInformer) HasSyncedChecker() cache.DoneChecker { return f.synced }

func TestWatchInformer(t *testing.T) {
	web, db := map[string]string{"app": "web"}, map[string]string{"app": "db"}
	for _, tc := range []struct {
		what string
		q    WatchQuery
		want []string
	}{
		{"the list", WatchQuery{List: true}, []string{"BOOKMARK 0", "ADDED a/x 0", "ADDED b/y 0", "LISTED 0",
			"MODIFIED a/x 0", "MODIFIED b/y 0", "ADDED a/z 0", "DELETED b/y 0", "DELETED c/lost 0", "DELETED a/z 0",
			"BOOKMARK 0"}},
		{"from now on", WatchQuery{Query: Query{Namespace: "a"}},
			[]string{"BOOKMARK 0", "BOOKMARK 0", "MODIFIED a/x 0", "ADDED a/z 0", "DELETED a/z 0", "BOOKMARK 0"}},
		{"a label", WatchQuery{Query: Query{Selector: "app=web"}},
			[]string{"BOOKMARK 0", "BOOKMARK 0", "DELETED a/x 0", "ADDED b/y 0", "DELETED b/y 0", "BOOKMARK 0"}},
	} {
		t.Run(tc.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakeInformer()
				var got []string
				ctx, cancel := context.WithCancelCause(t.Context())
				ended := make(chan error, 1)
				go func() {
					ended <- WatchInformer(ctx, f, tc.q, func(e Event) error { got = append(got, inShort(e)); return nil })
				}()
				synctest.Wait()
				if len(f.handler) > 0 != tc.q.List {
					t.Error("without the list it waits for the sync")
				}
				close(f.synced)
				h := <-f.handler
				h.OnAdd(pod("a", "x", web), true)
				h.OnAdd(pod("b", "y", db), true)
				close(f.replayed)
				synctest.Wait()
				h.OnUpdate(pod("a", "x", web), pod("a", "x", db))
				h.OnUpdate(pod("b", "y", db), pod("b", "y", web))
				h.OnAdd(pod("a", "z", db), false)
				h.OnDelete(pod("b", "y", web))
				h.OnDelete(cache.DeletedFinalStateUnknown{Key: "c/lost"})
				h.OnDelete(cache.DeletedFinalStateUnknown{Key: "a/z", Obj: pod("a", "z", db)})
				synctest.Wait()
				cancel(errStop)
				err := <-ended
				got = slices.CompactFunc(got, func(a, b string) bool { return a == b && a == "BOOKMARK 0" })
				want := slices.CompactFunc(slices.Clone(tc.want), func(a, b string) bool { return a == b && a == "BOOKMARK 0" })
				// The watch sends BOOKMARK 0 at every pause of its events. Pauses are random, so these bookmarks are ignored.
				pauses := func(s string) bool { return s == "BOOKMARK 0" }
				wantEvents(t, tc.what, slices.DeleteFunc(got, pauses), err, errStop, slices.DeleteFunc(want, pauses)...)
				if !f.removed {
					t.Error("the handler was not removed")
				}
			})
		})
	}
}

// TestWatchInformerGivesUpASlowReader checks that a watch through an informer ends if the queue stays full for half a
// minute, and that its event handler returns.
func TestWatchInformerGivesUpASlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeInformer()
		resume := make(chan struct{})
		ended := make(chan error, 1)
		go func() {
			n := 0
			ended <- WatchInformer(t.Context(), f, WatchQuery{List: true}, func(Event) error {
				if n++; n == 2 {
					<-resume
				}
				return nil
			})
		}()
		h := <-f.handler
		begun := time.Now()
		for range watchQueue + 1 {
			h.OnAdd(pod("a", "x", nil), false)
		}
		if waited := time.Since(begun); waited != 0 {
			t.Errorf("it waited for %s while there was room", waited)
		}
		h.OnAdd(pod("a", "x", nil), false)
		h.OnAdd(pod("a", "x", nil), false)
		if waited := time.Since(begun); waited != putTimeout {
			t.Errorf("the handler was held up for %s", waited)
		}
		close(resume)
		if err := <-ended; !errors.Is(err, ErrSlow) {
			t.Errorf("it ended with %v", err)
		}
	})
}

// TestWatchInformerReleasesHandler checks that an event handler that waits for the queue returns when the watch ends.
// Otherwise the informer would wait for the handler forever.
func TestWatchInformerReleasesHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeInformer()
		ctx, cancel := context.WithCancelCause(t.Context())
		resume := make(chan struct{})
		ended := make(chan error, 1)
		go func() {
			ended <- WatchInformer(ctx, f, WatchQuery{List: true}, func(e Event) error {
				if e.Type != Bookmark {
					<-resume
				}
				return nil
			})
		}()
		h := <-f.handler
		begun := time.Now()
		go func() {
			time.Sleep(time.Second)
			cancel(ErrStopping)
		}()
		for range watchQueue + 2 {
			h.OnAdd(pod("a", "x", nil), false)
		}
		if waited := time.Since(begun); waited != time.Second {
			t.Errorf("the handler was held up for %s", waited)
		}
		close(resume)
		if err := <-ended; !errors.Is(err, ErrStopping) {
			t.Errorf("it ended with %v", err)
		}
	})
}

func TestWatchInformerRefuses(t *testing.T) {
	for _, tc := range []struct {
		q    WatchQuery
		want error
	}{
		{WatchQuery{Since: seq(1)}, consumer.ErrNotKept},
		{WatchQuery{Since: seq(1), List: true}, errListSince},
	} {
		err := WatchInformer(t.Context(), newFakeInformer(), tc.q, func(Event) error { return nil })
		if !errors.Is(err, tc.want) {
			t.Errorf("%+v: %v", tc.q, err)
		}
	}
}
