package source

import (
	"context"
	"errors"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store/consumer"
)

// What a client is told is what the source tells, objects and errors.
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

func TestSocketPassesWhyAWatchEnds(t *testing.T) {
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

// A reader that does not read holds up nobody, and goes on where it was.
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
	w.write(t, append(ops, "-a/x")...) // which would not return if anybody waited for the reader
	close(resume)
	if err := <-ended; !errors.Is(err, errStop) {
		t.Fatal(err)
	}
	if len(got) < 30 || !slices.IsSorted(seqs) {
		t.Errorf("after %d writes in 31 commits it was told %d events, numbered %v", len(ops)+1, len(got), seqs)
	}
}

// Close of a server whose client has stopped reading ends its watch, and waits for it.
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

// A client that has gone is noticed although nothing happens, and its watch ends.
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

// A sync that does not say anything any more is noticed; one that says that it is there is not given up.
func TestDeadSyncOfAWatch(t *testing.T) {
	for _, beats := range []bool{false, true} {
		path := filepath.Join(t.TempDir(), "s")
		l, err := net.Listen("unix", mustSocketPath(t, path))
		if err != nil {
			t.Fatal(err)
		}
		gone := make(chan struct{})
		server := &http.Server{Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if r.URL.Path == pathPing {
				_, _ = rw.Write([]byte(`{"pid":1}`))
				return
			}
			st := newStream(rw)
			_ = st.send(frame{Event: &Event{Type: Bookmark, Seq: 1}}, true)
			for beats {
				select {
				case <-r.Context().Done():
					return
				case <-time.After(time.Millisecond):
					_ = st.send(frame{Beat: true}, true)
				}
			}
			<-gone
		})}
		go func() { _ = server.Serve(l) }()
		client, _, err := Dial(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		client.pulseEvery = 20 * time.Millisecond
		ctx, cancel := context.WithTimeoutCause(t.Context(), 400*time.Millisecond, errStop)
		want := ErrSilent
		if beats {
			want = errStop
		} else {
			ctx = t.Context()
		}
		if _, err := watchUntil(ctx, client, WatchQuery{}, ""); !errors.Is(err, want) {
			t.Errorf("beats %t: %v", beats, err)
		}
		cancel()
		close(gone)
		_ = client.Close()
		_ = server.Close()
	}
}

// A server says that it is there.
func TestWatchBeats(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	server := NewServer(&fakeSource{watch: func(ctx context.Context, _ WatchQuery, fn func(Event) error) error {
		<-ctx.Done()
		return context.Cause(ctx)
	}}, me)
	server.beatEvery = time.Millisecond
	server.Start(l)
	client, _, err := Dial(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	in, err := client.stream(t.Context(), http.MethodGet, pathWatch, nil)
	if err != nil {
		t.Fatal(err)
	}
	if f, err := in.next(); err != nil || !f.Beat {
		t.Errorf("%+v, %v", f, err)
	}
	_ = in.Close()
	_ = client.Close()
	if err := server.Close(); err != nil {
		t.Error(err)
	}
}
