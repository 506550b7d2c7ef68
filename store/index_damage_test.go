package store_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/storetest"
	"github.com/larder-dev/larder/internal/storetest/disk"
	"github.com/larder-dev/larder/store"
)

// TestLookUpOfAnEntryThatMoved checks that a look-up reports an index entry that a flipped bit has moved to another
// value. Each look-up also reads the first entry after its value's range, and so finds the wrong order.
func TestLookUpOfAnEntryThatMoved(t *testing.T) {
	path := filepath.Join(t.TempDir(), "larder.db")
	s, err := store.Open(path, byHand())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	c := openPods(t, s, byNamespaceAndColor)
	relist(t, c, store.ReplaceOptions{}, "4",
		upsert("a/1", "1", storetest.ColorLabel, "blue"), upsert("a/2", "2", storetest.ColorLabel, "blue"),
		upsert("a/3", "3", storetest.ColorLabel, "red"), upsert("a/4", "4", storetest.ColorLabel, "red"))
	for _, look := range []func() error{
		func() error { _, err := c.ByIndex(context.Background(), "color", "blue"); return err },
		func() error { _, err := c.IndexKeys(context.Background(), "color", "blue"); return err },
	} {
		if err := look(); err != nil {
			t.Fatal(err)
		}
	}
	// The damaged entry for "rlue" is stored before the entries for "red", but sorts after them.
	flipInFile(t, path, disk.IndexEntry("blue", "a/2"), disk.IndexEntry("rlue", "a/2"))
	objs, err := c.ByIndex(context.Background(), "color", "blue")
	if !errors.Is(err, entry.ErrDamaged) {
		t.Errorf("blue: %d objects, %v; want ErrDamaged", len(objs), err)
	}
}

// flipInFile replaces each occurrence of from in the file by to. The file may be open.
func flipInFile(t *testing.T, path string, from, to []byte) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	found := false
	for at := bytes.Index(text, from); at >= 0; at = bytes.Index(text, from) {
		found = true
		copy(text[at:], to)
		if _, err := f.WriteAt(to, int64(at)); err != nil {
			t.Fatal(err)
		}
	}
	if !found {
		t.Fatalf("%q is not in the file", from)
	}
}
