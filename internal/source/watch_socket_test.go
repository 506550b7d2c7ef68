package source

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store/consumer"
)

func TestSocketWatches(t *testing.T) {
	w := newWatched(t)
	w.write(t, "+a/x app=web", "+a/y", "-a/y")
	client, _ := serve(t, holding{NewFile(w.st)})
	for _, q := range []WatchQuery{{Since: seq(0)}, {Since: seq(1)},
		{Query: Query{Selector: "app=web"}, List: true}} {
		q.Collection = w.id().ID()
		last := "BOOKMARK 3"
		if q.List {
			last = "LISTED 3"
		}
		direct, err := watchUntil(t.Context(), NewFile(w.st), q, last)
		if !errors.Is(err, errStop) {
			t.Fatal(err)
		}
		remote, err := watchUntil(t.Context(), client, q, last)
		wantEvents(t, "by the socket", remote, err, errStop, direct...)
	}
	var since *consumer.SinceError
	_, err := watchUntil(t.Context(), client, WatchQuery{Query: w.query(), Since: seq(9)}, "")
	if !errors.As(err, &since) || *since != (consumer.SinceError{Since: 9, Oldest: 0, Last: 3}) {
		t.Errorf("since what has not been: %v", err)
	}
	if _, err := watchUntil(t.Context(), client, WatchQuery{Query: Query{Collection: "none"}}, ""); !errors.Is(err,
		ErrNoCollection) {
		t.Errorf("no collection: %v", err)
	}
	if _, err := watchUntil(t.Context(), client, WatchQuery{Query: Query{Collection: w.id().ID(), Selector: "("}},
		""); err == nil {
		t.Error("a bad selector was taken")
	}
}

func TestSocketPassesWatchErrors(t *testing.T) {
	for _, why := range []error{ErrSlow, ErrNotLive, ErrStopping, consumer.ErrNotKept} {
		for _, begun := range []bool{false, true} {
			src := &fakeSource{watch: func(_ context.Context, _ WatchQuery, fn func(Event) error) error {
				if begun {
					return errors.Join(fn(Event{Type: Bookmark, Seq: 3}), why)
				}
				return why
			}}
			client, _ := serve(t, src)
			if got, err := watchUntil(t.Context(), client, WatchQuery{}, ""); !errors.Is(err, why) || (len(got) > 0) != begun {
				t.Errorf("%v, begun %t: got %q, %v", why, begun, got, err)
			}
		}
	}
}

// TestSlowReaderOfAWatch checks that a watch whose reader pauses blocks neither the writer nor other watches, and that
// the reader continues at its position.
func TestSlowReaderOfAWatch(t *testing.T) {
	w := newWatched(t)
	w.write(t, "+a/x")
	client, _ := serve(t, holding{NewFile(w.st)})
	stalled, resume := make(chan struct{}), make(chan struct{})
	var got []string
	var seqs []uint64
	ended := make(chan error, 1)
	go func() {
		ended <- client.Watch(t.Context(), WatchQuery{Query: w.query()}, func(e Event) error {
			seqs = append(seqs, e.Seq)
			if got = append(got, inShort(e)); len(got) == 1 {
				close(stalled)
				<-resume
			}
			if e.Type == Deleted {
				return errStop
			}
			return nil
		})
	}()
	<-stalled
	w.every = 100
	ops := slices.Repeat([]string{"+a/x", "+a/y", "+b/z"}, 1000)
	w.write(t, append(ops, "-a/x")...) // would block if the writer waited for the reader
	close(resume)
	if err := <-ended; !errors.Is(err, errStop) {
		t.Fatal(err)
	}
	if len(got) < 30 || !slices.IsSorted(seqs) {
		t.Errorf("after %d writes in 31 commits it was told %d events, numbered %v", len(ops)+1, len(got), seqs)
	}
}

// TestCloseEndsWatches checks that Server.Close ends a watch whose client has stopped reading, and waits for the HTTP
// handler.
func TestCloseEndsWatches(t *testing.T) {
	ended := make(chan struct{})
	src := &fakeSource{watch: func(ctx context.Context, _ WatchQuery, fn func(Event) error) error {
		defer close(ended)
		for {
			if err := fn(Event{Type: Modified, Entry: entry.Entry{Key: "a/x"}}); err != nil {
				return err
			}
		}
	}}
	client, server := serve(t, src)
	first, resume := make(chan struct{}), make(chan struct{})
	result := make(chan error, 1)
	go func() {
		n := 0
		result <- client.Watch(t.Context(), WatchQuery{}, func(Event) error {
			if n++; n == 1 {
				close(first)
				<-resume
			}
			return nil
		})
	}()
	<-first
	if err := server.Close(); err != nil {
		t.Error(err)
	}
	select {
	case <-ended:
	default:
		t.Error("the watch goes on after Close")
	}
	close(resume)
	if err := <-result; !errors.Is(err, errBroken) {
		t.Errorf("the client got %v, want errBroken", err)
	}
}

func TestDeadClientOfAWatch(t *testing.T) {
	ended := make(chan struct{})
	client, _ := serve(t, &fakeSource{watch: func(ctx context.Context, _ WatchQuery, fn func(Event) error) error {
		defer close(ended)
		_ = fn(Event{Type: Bookmark})
		<-ctx.Done()
		return ctx.Err()
	}})
	_, err := watchUntil(t.Context(), client, WatchQuery{}, "BOOKMARK 0")
	if !errors.Is(err, errStop) {
		t.Fatal(err)
	}
	<-ended
}

// TestDeadSyncOfAWatch checks that the client ends a watch if the larder sync no longer answers. While the sync
// answers, a watch without events continues.
func TestDeadSyncOfAWatch(t *testing.T) {
	for _, alive := range []bool{false, true} {
		asked, enough := make(chan struct{}, 100), make(chan struct{})
		server := &fakeSync{sync: func(w http.ResponseWriter, r *http.Request) {
			if alive {
				asked <- struct{}{}
				return
			}
			<-enough
		}, other: func(w http.ResponseWriter, r *http.Request) {
			_ = newOutput(w).send(Event{Type: Bookmark, Seq: 1}, true)
			<-r.Context().Done()
		}}
		client := server.dial(t)
		client.pingEvery = time.Millisecond
		ctx, cancel := context.WithCancelCause(t.Context())
		want := errStop
		if alive {
			go func() {
				for range 3 * pingFailures {
					<-asked
				}
				cancel(errStop)
			}()
		} else {
			client.answerWithin, want = time.Millisecond, ErrSilent
		}
		if _, err := watchUntil(ctx, client, WatchQuery{}, ""); !errors.Is(err, want) {
			t.Errorf("alive %t: %v", alive, err)
		}
		cancel(nil)
		close(enough)
	}
}
