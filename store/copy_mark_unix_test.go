//go:build unix

package store_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/larder-dev/larder/internal/storetest/disk"
	"github.com/larder-dev/larder/store"
)

// TestCopyThatFailsLeavesTheMark checks that the ".opening" file stays, so that the next process verifies the store.
func TestCopyThatFailsLeavesTheMark(t *testing.T) {
	s, _, _ := filled(t, store.Options{})
	failNow(t, s)
	away := s.Path() + "-away"
	if err := errors.Join(os.Rename(s.Path(), away),
		os.WriteFile(s.Path(), []byte("somebody else's"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := copyAgain(s); !errors.Is(err, store.ErrReplaced) {
		t.Fatalf("over another file: %v", err)
	}
	if markOf(t, s.Path()) == "" {
		t.Error("the mark is gone")
	}
	wantNames(t, filepath.Dir(s.Path()), "store", "store-away", "store.opening")
}

// TestCopyWhileMarkIsLocked checks that a copy fails with ErrLocked before it begins if another process has locked the
// ".opening" file, because the copy could not be renamed into place.
func TestCopyWhileMarkIsLocked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _, _ := filled(t, store.Options{LockTimeout: -1})
		failNow(t, s)
		mark, err := os.OpenFile(s.Path()+disk.SuffixOpening, os.O_RDWR, 0)
		if err == nil {
			err = syscall.Flock(int(mark.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		}
		if err != nil {
			t.Fatal(err)
		}
		store.SetMaxSize(s, 32<<10) // at this MaxSize a copy would fail with another error than ErrLocked
		if err := copyAgain(s); !errors.Is(err, store.ErrLocked) {
			t.Errorf("copy: %v", err)
		}
		if err := mark.Close(); err != nil {
			t.Fatal(err)
		}
		store.SetMaxSize(s, 0)
		time.Sleep(2 * time.Second)
		mustCopyAgain(t, s)
	})
}
