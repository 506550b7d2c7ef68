package store_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/internal/storetest"
	"github.com/larder-dev/larder/store"
)

// whenCanceled cancels the context of call while the disk hangs, and returns the error of call.
func whenCanceled(t *testing.T, call func(ctx context.Context) error) error {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- call(ctx) }()
	cancel()
	select {
	case err := <-done:
		return err
	case <-time.After(time.Minute):
		t.Fatal("it waits for the disk although its context has ended")
		return nil
	}
}

// TestWritesEndWithTheirContext checks that writes wait for a hanging write no longer than their contexts.
func TestWritesEndWithTheirContext(t *testing.T) {
	s := storetest.Open(t, byHand())
	g := store.GateCommits(s)
	c := openPods(t, s, byNamespaceAndColor)
	relist(t, c, store.ReplaceOptions{}, "5", upsert("a/x", "1"))
	entered, release := g.Hold()
	t.Cleanup(release)
	hung := make(chan error, 1)
	go func() { hung <- c.RetainChanges(context.Background(), time.Hour) }()
	<-entered
	for name, call := range map[string]func(ctx context.Context) error{
		"SetMustRelist": func(ctx context.Context) error { return c.SetMustRelist(ctx, "another") },
		"OpenCursor":    func(ctx context.Context) error { _, err := c.OpenCursor(ctx, "handler"); return err },
		"ForgetCursor":  func(ctx context.Context) error { return c.ForgetCursor(ctx, "handler") },
		"BeginReplace": func(ctx context.Context) error {
			r, err := c.BeginReplace(ctx, store.ReplaceOptions{})
			if err == nil {
				r.Abort()
			}
			return err
		},
		"AddIndexers": func(ctx context.Context) error {
			return c.AddIndexers(ctx, cache.Indexers{"late": storetest.ByName}, nil)
		},
	} {
		if err := whenCanceled(t, call); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
	}
	release()
	if err := <-hung; err != nil {
		t.Error(err)
	}
	if err := c.AddIndexers(t.Context(), cache.Indexers{"late": storetest.ByName}, nil); err != nil {
		t.Errorf("once the disk has finished: %v", err)
	}
}

// blocked is an io.Writer that blocks. Copying a store to it keeps a read transaction open.
type blocked struct{ entered, release chan struct{} }

func (b *blocked) Write(p []byte) (int, error) {
	select {
	case <-b.entered:
	default:
		close(b.entered)
	}
	<-b.release
	return len(p), nil
}

func TestCompactionWaitsForNoReader(t *testing.T) {
	s := storetest.Open(t, byHand())
	c := openPods(t, s, nil)
	relist(t, c, store.ReplaceOptions{}, "5", upsert("a/x", "1"))
	b := &blocked{make(chan struct{}), make(chan struct{})}
	read := make(chan error, 1)
	go func() { _, err := s.CopyTo(context.Background(), b); read <- err }()
	<-b.entered
	err := whenCanceled(t, func(context.Context) error {
		_, err := s.Compact(t.Context())
		apply(t, c, "6", upsert("a/y", "6"))
		return errors.Join(err, s.Flush(t.Context()))
	})
	if err != nil {
		t.Error(err)
	}
	close(b.release)
	if err := <-read; err != nil {
		t.Errorf("the reader: %v", err)
	}
}

// TestAddIndexersDoesNotBlockCommits checks that AddIndexers does not hold the writer lock while it waits for a write
// of its collection, so that commits of other collections wait only for that write.
func TestAddIndexersDoesNotBlockCommits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := storetest.Open(t, byHand())
		g := store.GateCommits(s)
		c, other := openPods(t, s, nil), openOthers(t, s)
		entered, release := g.Hold()
		ended := make(chan error, 2)
		go func() { ended <- c.RetainChanges(t.Context(), time.Hour) }()
		<-entered
		go func() { ended <- c.AddIndexers(t.Context(), cache.Indexers{"late": storetest.ByName}, nil) }()
		synctest.Wait()
		apply(t, other, "1", upsert("a/x", "1"))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := s.Flush(ctx); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "a write of") {
			t.Errorf("the commit has to wait for the write that hangs, and says: %v", err)
		}
		release()
		for range 2 {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	})
}

func openOthers(t *testing.T, s *store.Store) *store.Collection {
	t.Helper()
	id := storetest.Pods
	id.Namespace = "others"
	c, err := s.Collection(t.Context(), id, store.CollectionOptions{Codec: storetest.PodCodec()})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestAbortEndsWithItsContext checks that a list can be aborted while the disk hangs, and that the next list can begin.
func TestAbortEndsWithItsContext(t *testing.T) {
	for name, held := range map[string]int{"held": 1 << 20, "shown": 1} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := storetest.Open(t, byHand())
				g := store.GateCommits(s)
				c := openPods(t, s, nil)
				relist(t, c, store.ReplaceOptions{}, "5", upsert("a/x", "1"))
				store.SetLimits(c, held, 1<<20)
				r, err := c.BeginReplace(t.Context(), store.ReplaceOptions{})
				if err != nil {
					t.Fatal(err)
				}
				if _, err := r.Page(t.Context(), podsOf(upsert("a/y", "6"))); err != nil {
					t.Fatal(err)
				}
				entered, release := g.Hold()
				hung, aborted := make(chan error, 1), make(chan struct{})
				late := cache.Indexers{"late": storetest.ByName}
				go func() { hung <- c.AddIndexers(t.Context(), late, nil) }()
				<-entered
				go func() { r.Abort(); close(aborted) }()
				time.Sleep(time.Minute)
				synctest.Wait()
				select {
				case <-aborted:
				default:
					t.Error("Abort waits for the disk")
				}
				release()
				if err := <-hung; err != nil {
					t.Error(err)
				}
				<-aborted
				relist(t, c, store.ReplaceOptions{}, "7", upsert("a/z", "7"))
				wantStrings(t, "after the next list", list(t, c), "a/z uid=uid-a/z rv=7")
			})
		})
	}
}

// slowCodec is a codec whose Decode waits until its channel decode is closed.
type slowCodec struct {
	codec.Codec
	decode chan struct{}
}

func (c slowCodec) Decode(data []byte) (runtime.Object, error) {
	<-c.decode
	return c.Codec.Decode(data)
}

// TestCloseWhileObjectsAreRead checks that Store.Close returns at once while a collection that is loading its objects
// into memory waits for a hanging write.
func TestCloseWhileObjectsAreRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := storetest.Open(t, byHand())
		g := store.GateCommits(s)
		relisted := openPods(t, s, nil)
		relist(t, relisted, store.ReplaceOptions{}, "5", upsert("a/x", "1"))
		if err := relisted.Close(); err != nil {
			t.Fatal(err)
		}
		codec := slowCodec{storetest.PodCodec(), make(chan struct{})}
		c := openPodsWith(t, s, store.CollectionOptions{Codec: codec, Residency: store.All})
		entered, release := g.Hold()
		hung := make(chan error, 1)
		go func() { hung <- c.RetainChanges(context.Background(), time.Hour) }()
		<-entered
		close(codec.decode)
		synctest.Wait()
		if err := c.Close(); err != nil {
			t.Errorf("while the disk hangs: %v", err)
		}
		release()
		if err := <-hung; err != nil {
			t.Error(err)
		}
	})
}
