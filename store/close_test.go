package store_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/hook"
	"github.com/larder-dev/larder/internal/storetest"
	"github.com/larder-dev/larder/store"
)

// closeWait is the maximum time that Store.Close waits for the disk.
const closeWait = 10 * time.Second

func openGated(t *testing.T, path string) (*store.Store, *hook.Gate) {
	t.Helper()
	g := &hook.Gate{}
	o := byHand()
	o.Hooks = &hook.Hooks{Commit: g.Commit}
	s, err := store.Open(path, o)
	if err != nil {
		t.Fatal(err)
	}
	return s, g
}

// wantStillWriting checks that end fails with ErrStillWriting after closeWait, and names the running write.
func wantStillWriting(t *testing.T, what, writing string, end func() error) {
	t.Helper()
	begun := time.Now()
	err := end()
	if !errors.Is(err, store.ErrStillWriting) || !strings.Contains(err.Error(), writing) ||
		time.Since(begun) != closeWait {
		t.Errorf("%s: %v after %v", what, err, time.Since(begun))
	}
}

// TestCloseWhileTheDiskHangs checks that Close returns in time while a commit hangs, but the file stays locked. When
// the disk works again, the commit writes the dirty changes.
func TestCloseWhileTheDiskHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "larder.db")
		s, g := openGated(t, path)
		c := openPods(t, s, nil)
		relist(t, c, store.ReplaceOptions{}, "1", upsert("a/x", "1"))
		apply(t, c, "2", upsert("a/x", "2"))
		_, release := g.Hold()
		for range 2 {
			wantStillWriting(t, "Close", "a commit of the dirty changes", s.Close)
		}
		wantStrings(t, "reads", list(t, c), "a/x uid=uid-a/x rv=2")
		if _, err := c.Apply(context.Background(), entry.Batch{ResourceVersion: "3"}); !errors.Is(err, store.ErrClosed) {
			t.Errorf("Apply: %v", err)
		}
		if _, err := s.Collection(context.Background(),
			entry.Identity{GroupVersionResource: storetest.Pods.GroupVersionResource, Namespace: "a"},
			store.CollectionOptions{Codec: storetest.PodCodec()}); !errors.Is(err, store.ErrClosed) {
			t.Errorf("another collection: %v", err)
		}
		if _, err := store.Open(path, store.Options{LockTimeout: -1}); !errors.Is(err, store.ErrLocked) {
			t.Errorf("another Open: %v", err)
		}
		release()
		synctest.Wait()
		if err := s.Close(); err != nil {
			t.Errorf("Close, now that it is closed: %v", err)
		}
		s = storetest.OpenFile(t, path, byHand())
		c = openPods(t, s, nil)
		wantStrings(t, "what is stored", list(t, c), "a/x uid=uid-a/x rv=2")
		if info := infoOf(t, c); info.ResourceVersion != "2" {
			t.Errorf("info %+v", info)
		}
	})
}

// TestCloseWhileAWriteHangs checks Close while a write other than a commit hangs: the error names that write, and the
// dirty changes are committed after it.
func TestCloseWhileAWriteHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "larder.db")
		s, _ := openGated(t, path)
		c := openPods(t, s, nil)
		apply(t, c, "2", upsert("a/x", "2"))
		release, err := store.TakeWriter(s)
		if err != nil {
			t.Fatal(err)
		}
		wantStillWriting(t, "Close", "a test has held the writer lock for 10s", s.Close)
		release()
		synctest.Wait()
		s = storetest.OpenFile(t, path, byHand())
		wantStrings(t, "what is stored", list(t, openPods(t, s, nil)), "a/x uid=uid-a/x rv=2")
	})
}

// TestCollectionCloseWhileTheDiskHangs checks that while Collection.Close hangs, other collections keep working, and
// opening the same collection fails instead of waiting.
func TestCollectionCloseWhileTheDiskHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		path := filepath.Join(t.TempDir(), "larder.db")
		s, g := openGated(t, path)
		c := openPodsWith(t, s, store.CollectionOptions{Closing: func() bool { return true }})
		other, err := s.Collection(ctx, entry.Identity{GroupVersionResource: storetest.Pods.GroupVersionResource,
			Namespace: "a"},
			store.CollectionOptions{Codec: storetest.PodCodec()})
		if err != nil {
			t.Fatal(err)
		}
		apply(t, c, "1", upsert("a/x", "1"))
		_, release := g.Hold()
		again := func() error {
			_, err := s.Collection(ctx, storetest.Pods, store.CollectionOptions{Codec: storetest.PodCodec()})
			if !errors.Is(err, store.ErrCollectionOpen) {
				t.Errorf("opened while it is being closed: %v", err)
			}
			return err
		}
		waited := make(chan error, 1)
		go func() {
			begun := time.Now()
			err := again()
			if time.Since(begun) != closeWait {
				t.Errorf("it waited for %v", time.Since(begun))
			}
			waited <- err
		}()
		synctest.Wait()
		wantStillWriting(t, "Close", "a commit of the dirty changes", c.Close)
		if err := <-waited; !errors.Is(err, store.ErrStillWriting) {
			t.Errorf("who waits for the name: %v", err)
		}
		begun := time.Now()
		if err := again(); !errors.Is(err, store.ErrStillWriting) || time.Since(begun) != 0 {
			t.Errorf("who comes later: %v after %v", err, time.Since(begun))
		}
		apply(t, other, "7", upsert("a/y", "7"))
		wantStrings(t, "the other collection", list(t, other), "a/y uid=uid-a/y rv=7")
		release()
		synctest.Wait()
		c = openPods(t, s, nil)
		wantStrings(t, "the collection", list(t, c), "a/x uid=uid-a/x rv=1")
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		storetest.OpenFile(t, path, byHand())
	})
}

func TestFlushEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var commits []store.Commit
		s, g := openGated(t, filepath.Join(t.TempDir(), "larder.db"))
		c := openPodsWith(t, s, store.CollectionOptions{Committed: func(c store.Commit) { commits = append(commits, c) }})
		apply(t, c, "1", upsert("a/x", "1"))
		_, release := g.Hold()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begun := time.Now()
		err := s.Flush(ctx)
		if !errors.Is(err, store.ErrStillWriting) || !errors.Is(err, context.DeadlineExceeded) ||
			time.Since(begun) != time.Second {
			t.Errorf("Flush: %v after %v", err, time.Since(begun))
		}
		if s.Pending() == 0 || len(commits) > 0 {
			t.Errorf("%d bytes pending, commits %v, before the commit has returned", s.Pending(), commits)
		}
		release()
		synctest.Wait()
		if s.Pending() != 0 || len(commits) != 1 || commits[0].Err != nil || commits[0].Objects != 1 {
			t.Errorf("%d bytes pending, commits %v, afterwards", s.Pending(), commits)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestSlowDisk checks that CommitErr returns ErrSlowDisk while a commit takes longer than ten seconds.
func TestSlowDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, g := openGated(t, filepath.Join(t.TempDir(), "larder.db"))
		c := openPods(t, s, nil)
		apply(t, c, "1", upsert("a/x", "1"))
		finish := hang(t, s, g)
		begun, changed := time.Now(), s.Committed()
		if err := s.CommitErr(); err != nil {
			t.Errorf("at once: %v", err)
		}
		<-changed
		err := s.CommitErr()
		if !errors.Is(err, store.ErrSlowDisk) || !strings.Contains(err.Error(), "a commit of the dirty changes") ||
			time.Since(begun) != 10*time.Second {
			t.Errorf("after %v: %v", time.Since(begun), err)
		}
		// The batch is far below the limits at which Apply waits.
		apply(t, c, "2", upsert("a/x", "2"))
		changed = s.Committed()
		if err := finish(); err != nil {
			t.Error(err)
		}
		<-changed
		if err := s.CommitErr(); err != nil {
			t.Errorf("once it has returned: %v", err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}
