package store_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/larder-dev/larder/internal/storetest"
	"github.com/larder-dev/larder/store"
)

// TestChangesOverAnAttachBehindTheFile: where memory had heard less than the file tells, changes are kept on, and who has read them begins anew: nobody is told that what memory has yet
// to hear of is gone.
func TestChangesOverAnAttachBehindTheFile(t *testing.T) {
	for _, handler := range []bool{false, true} {
		t.Run(fmt.Sprintf("handler %t", handler), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "larder.db")
				old := storetest.OpenFile(t, path, store.Options{CommitInterval: -1})
				c := openPods(t, old, nil)
				relist(t, c, store.ReplaceOptions{}, "10", oldPods...)
				keepChanges(t, c, time.Hour)
				if handler {
					catchUp(t, feedOf(t, c, "h"))
				}
				apply(t, c, "30", upsert("a/late", "30"))
				read := kept(t, old, c).Last
				s := openDetached(t, path, store.Options{})
				c = openPods(t, s, nil)
				relist(t, c, store.ReplaceOptions{}, "20", oldPods...)
				if err := old.Close(); err != nil {
					t.Fatal(err)
				}
				time.Sleep(6 * time.Minute)
				if !attached(s) {
					t.Fatalf("still in memory: %v", s.Detached())
				}
				k := kept(t, s, c)
				if k.For != time.Hour || k.Oldest <= read {
					t.Errorf("%+v after %d", k, read)
				}
				var since *store.SinceError
				if _, err := viewPods(t, s, c).Changes(t.Context(), read); !errors.As(err, &since) {
					t.Errorf("since %d: %v", read, err)
				}
				sound(t, s)
			})
		})
	}
}

// TestChangesKeptForLessOverARebuild: what is dropped when less is asked for stays known as dropped.
func TestChangesKeptForLessOverARebuild(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := storetest.Open(t, store.Options{CommitInterval: -1, Logger: &quiet})
		g := store.GateCommits(s)
		c := openPods(t, s, nil)
		apply(t, c, "2", upsert("a/x", "1"), upsert("a/y", "2"))
		keepChanges(t, c, 24*time.Hour)
		apply(t, c, "3", remove("a/x", "3"))
		time.Sleep(2 * time.Hour)
		keepChanges(t, c, time.Hour)
		want := kept(t, s, c)
		if want.Oldest != 3 {
			t.Fatalf("%+v", want)
		}
		g.Fail(func() error { return syscall.EIO })
		if _, err := c.Apply(t.Context(), store.Batch{Ops: []store.Op{upsert("a/z", "4")}, ResourceVersion: "4"}); !errors.Is(err, store.ErrOutcomeUnknown) {
			t.Fatal(err)
		}
		g.Fail(nil)
		if err := s.Rebuild(t.Context()); err != nil {
			t.Fatal(err)
		}
		if k := kept(t, s, c); k != want {
			t.Errorf("%+v after a rebuild, was %+v", k, want)
		}
	})
}
