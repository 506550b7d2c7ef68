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

// childDieInOpen exits while it opens a store, like a process killed by an unreadable page.
func childDieInOpen(path string) error {
	_, err := store.Open(path, store.Options{Logger: &quiet, Hooks: &hook.Hooks{Wall: func() time.Time {
		os.Exit(0)
		panic("not reached")
	}}})
	return fmt.Errorf("it has not died: %w", err)
}

// damageUnreadLeaf damages a leaf page that Open does not read if the file was closed cleanly.
func damageUnreadLeaf(t *testing.T, path string) {
	t.Helper()
	data := mustRead(t, path)
	data[leafThatOpenLeaves(t, data)] ^= 1
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestProcessThatDiedInOpen checks that a file is read page by page, before it is mapped, after a process died while it
// opened that file. So a damaged file kills one process at most.
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
