package store_test

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store"
)

// TestCycle checks that Open finds a branch page that points to itself: reading it would overflow the stack.
func TestCycle(t *testing.T) {
	for _, clean := range []bool{false, true} {
		path, _ := populated(t, clean)
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, off := range pagesOf(t, data)["branch"] {
			last := int(binary.NativeEndian.Uint16(data[off+10:])) - 1
			copy(data[off+16+16*last+8:], data[off:off+8])
		}
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		s := mustOpen(t, path, store.Options{})
		if s.Quarantined() == "" {
			t.Errorf("closed cleanly %t: not quarantined", clean)
		}
		mustClose(t, s)
	}
}

// TestFreelistWithAPageInUse checks that Open finds a page in use on the freelist: a write would overwrite it.
func TestFreelistWithAPageInUse(t *testing.T) {
	path, _ := populated(t, true)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	pages := pagesOf(t, data)
	freelist, leaves := pages["freelist"][0], pages["leaf"]
	if binary.NativeEndian.Uint16(data[freelist+10:]) == 0 {
		t.Fatal("the freelist is empty")
	}
	copy(data[freelist+16:freelist+24], data[leaves[len(leaves)/2]:])
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	s := mustOpen(t, path, store.Options{})
	if s.Quarantined() == "" {
		t.Error("not quarantined")
	}
	mustClose(t, s)
}

// TestCircle checks that a scan ends although the last entry of a branch page points to the page's parent. A cursor
// would read the same leaves for ever; the scan finds that their keys do not ascend.
func TestCircle(t *testing.T) {
	for _, readOnly := range []bool{true, false} {
		path := filepath.Join(t.TempDir(), "store")
		s := mustOpen(t, path, store.Options{})
		mustList(t, mustCollection(t, s, pods()), 8000)
		mustClose(t, s)
		// The store is opened before the file is damaged, because Open would find the damage.
		s = mustOpen(t, path, store.Options{ReadOnly: readOnly})
		v, err := s.View(t.Context(), pods())
		if err != nil {
			t.Fatal(err)
		}
		patch(t, s, func(data []byte) { pointBack(t, data) })
		if _, err := v.Keys(t.Context()); !errors.Is(err, entry.ErrDamaged) {
			t.Errorf("read: %v", err)
		}
		mustClose(t, s)
	}
}

func pointBack(t *testing.T, data []byte) {
	t.Helper()
	order := binary.NativeEndian
	branches := map[uint64]int{}
	for _, off := range pagesOf(t, data)["branch"] {
		branches[order.Uint64(data[off:])] = off
	}
	circles := 0
	for id, parent := range branches {
		if child, ok := branches[order.Uint64(data[parent+16+8:])]; ok {
			last := int(order.Uint16(data[child+10:])) - 1
			order.PutUint64(data[child+16+16*last+8:], id)
			circles++
		}
	}
	if circles == 0 {
		t.Fatal("the tree is not deep enough")
	}
}
