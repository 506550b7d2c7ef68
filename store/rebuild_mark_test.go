package store

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestRebuildThatFailsLeavesTheMark: the store is still one that the next process must verify.
func TestRebuildThatFailsLeavesTheMark(t *testing.T) {
	s, _, _ := filled(t, Options{})
	s.failNow(ErrOutcomeUnknown)
	away := s.path + "-away"
	if err := errors.Join(os.Rename(s.path, away), os.WriteFile(s.path, []byte("somebody else's"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := s.Rebuild(t.Context()); err == nil {
		t.Fatal("it took the place of another file")
	}
	if crashesSaid(s.path) == 0 {
		t.Error("the mark is gone")
	}
	wantNames(t, filepath.Dir(s.path), "store", "store-away", "store.opening")
}

// TestRebuildWhileSomebodyOpens: another process waits for the store, with the mark. The copy, which
// could not be put in place, is not even begun.
func TestRebuildWhileSomebodyOpens(t *testing.T) {
	s, _, _ := filled(t, Options{LockTimeout: -1})
	s.failNow(ErrOutcomeUnknown)
	mark, err := takeMark(t.Context(), s.path, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	s.o.MaxSize = 32 << 10 // a copy would fail
	if err := s.Rebuild(t.Context()); !errors.Is(err, ErrLocked) {
		t.Errorf("rebuild: %v", err)
	}
	if err := mark.release(); err != nil {
		t.Fatal(err)
	}
	s.o.MaxSize = 0
	if err := s.Rebuild(t.Context()); err != nil {
		t.Errorf("rebuild once nobody opens it: %v", err)
	}
}
