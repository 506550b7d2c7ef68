package store_test

import (
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/hook"
	"github.com/larder-dev/larder/store"
)

// childDieInOpen dies while it opens a store, as of a page that cannot be read.
func childDieInOpen(path string) error {
	_, err := store.Open(path, store.Options{Logger: &quiet, Hooks: &hook.Hooks{Wall: func() time.Time {
		os.Exit(0)
		panic("not reached")
	}}})
	return fmt.Errorf("it has not died: %w", err)
}

// damageUnreadLeaf damages a page that Open does not read of a file that was closed cleanly.
func damageUnreadLeaf(t *testing.T, path string) {
	t.Helper()
	data := mustRead(t, path)
	data[leafThatOpenLeaves(t, data)] ^= 1
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestProcessThatDiedInOpen: a file that may have killed the process that opened it is looked at as a whole, page by
// page, by the next one, before that maps it: it kills one process at most.
func TestProcessThatDiedInOpen(t *testing.T) {
	for _, died := range []bool{true, false} {
		path, _ := populated(t, true)
		if died {
			runChild(t, "die-in-open", path)
		}
		damageUnreadLeaf(t, path)
		reader, err := store.Open(path, store.Options{ReadOnly: true, Logger: &quiet})
		if died != errors.Is(err, entry.ErrDamaged) || !died && err != nil {
			t.Errorf("a process died in Open %t, open for reading: %v", died, err)
		}
		if err == nil {
			mustClose(t, reader)
		}
		s := mustOpen(t, path, store.Options{})
		if moved := s.Quarantined() != ""; moved != died {
			t.Errorf("a process died in Open %t: the damaged file was moved aside %t", died, moved)
		}
		s.Close()
	}
}
