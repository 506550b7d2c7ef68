package store_test

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"testing"

	"github.com/larder-dev/larder/internal/storetest"
	"github.com/larder-dev/larder/store"
)

func TestChangelogOfAClosedCollection(t *testing.T) {
	ctx := context.Background()
	s := storetest.Open(t, store.Options{})
	before := openPods(t, s, nil)
	cursorOf(t, before, "h").Close()
	if err := before.Close(); err != nil {
		t.Fatal(err)
	}
	c := openPods(t, s, nil)
	if _, err := before.OpenCursor(ctx, "late"); !errors.Is(err, store.ErrClosed) {
		t.Errorf("a new handler: %v", err)
	}
	if _, err := before.OpenCursor(ctx, "h"); !errors.Is(err, store.ErrClosed) {
		t.Errorf("one that is known: %v", err)
	}
	if err := before.ForgetCursor(ctx, "h"); !errors.Is(err, store.ErrClosed) {
		t.Errorf("ForgetCursor: %v", err)
	}
	if all, err := c.Cursors(ctx); err != nil || len(all) != 1 {
		t.Errorf("the file has %+v, %v", all, err)
	}
	if err := c.ForgetCursor(ctx, "h"); err != nil {
		t.Error(err)
	}
}

func TestCloseWithDurableHandlers(t *testing.T) {
	for range 20 {
		path := filepath.Join(t.TempDir(), "larder.db")
		s, err := store.Open(path, store.Options{CommitInterval: 1 << 40})
		if err != nil {
			t.Fatal(err)
		}
		store.NoSync(s)
		c := openPods(t, s, nil)
		f := cursorOf(t, c, "h")
		apply(t, c, "2", upsert("a/x", "1"), upsert("a/y", "2"))
		flush(t, s)
		var wg sync.WaitGroup
		acknowledged := uint64(0)
		begun := make(chan struct{})
		wg.Go(func() {
			<-f.Changed()
		})
		wg.Go(func() {
			close(begun)
			for n := uint64(1); ; n++ {
				position, resets, err := f.Position()
				if err != nil {
					t.Error(err)
					return
				}
				position.Seq = n
				if err := f.Acknowledge(position, resets); err != nil {
					if !errors.Is(err, store.ErrClosed) {
						t.Error(err)
					}
					return
				}
				acknowledged = n
			}
		})
		<-begun
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		wg.Wait()
		if s, err = store.Open(path, store.Options{}); err != nil {
			t.Fatal(err)
		}
		all, err := s.Cursors(context.Background(), c.Identity())
		if err != nil || len(all) != 1 || all[0].Seq != acknowledged {
			t.Errorf("%d was acknowledged, and the file has %+v, %v", acknowledged, all, err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
