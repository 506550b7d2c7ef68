package store_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/internal/storetest"
	"github.com/larder-dev/larder/store"
)

// gone returns what a call did that was given up while the disk hangs; it must not wait for the disk.
func gone(t *testing.T, call func(ctx context.Context) error) error {
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

// TestWritesGiveUp: while one write of a collection hangs in the disk, the others wait no longer than their contexts last.
func TestWritesGiveUp(t *testing.T) {
	s := storetest.Open(t, byHand())
	g := store.GateCommits(s)
	c := openPods(t, s, byNamespaceAndColor)
	relist(t, c, store.ReplaceOptions{}, "5", upsert("a/x", "1"))
	entered, release := g.Hold()
	t.Cleanup(release)
	hung := make(chan error, 1)
	go func() { hung <- c.SetMustRelist(context.Background(), "why") }()
	<-entered
	for name, call := range map[string]func(ctx context.Context) error{
		"SetMustRelist": func(ctx context.Context) error { return c.SetMustRelist(ctx, "another") },
		"Feed":          func(ctx context.Context) error { _, err := c.Feed(ctx, "handler"); return err },
		"ForgetHandler": func(ctx context.Context) error { return c.ForgetHandler(ctx, "handler") },
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
		if err := gone(t, call); !errors.Is(err, context.Canceled) {
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

// blocked is a writer that blocks: who copies a store into it reads the store's file for as long.
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

// TestCompactionWaitsForNoReader: a reader of the old file holds up neither the compaction nor those who write after it.
func TestCompactionWaitsForNoReader(t *testing.T) {
	s := storetest.Open(t, byHand())
	c := openPods(t, s, nil)
	relist(t, c, store.ReplaceOptions{}, "5", upsert("a/x", "1"))
	b := &blocked{make(chan struct{}), make(chan struct{})}
	read := make(chan error, 1)
	go func() { _, err := s.CopyTo(context.Background(), b); read <- err }()
	<-b.entered
	err := gone(t, func(context.Context) error {
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
