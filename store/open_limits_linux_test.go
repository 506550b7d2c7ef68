package store_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/larder-dev/larder/internal/storetest/disk"
	"github.com/larder-dev/larder/store"
)

// TestOpenWithoutAnInode checks that a store can be opened although no inode is left for its ".opening" file. Open then
// reads every page, because the next process would not notice a crash now. Only root may mount a file system.
func TestOpenWithoutAnInode(t *testing.T) {
	for _, damaged := range []bool{false, true} {
		dir, ok := mountWith(t, "nr_inodes=3")
		if !ok {
			return
		}
		from, _ := populated(t, true)
		if damaged {
			damageUnreadLeaf(t, from)
		}
		path := filepath.Join(dir, "store")
		if err := errors.Join(os.WriteFile(path, mustRead(t, from), 0o600),
			os.WriteFile(filepath.Join(dir, "last"), nil, 0o600)); err != nil {
			t.Fatal(err)
		}
		s, err := store.Open(path, store.Options{Logger: &quiet})
		if err == nil {
			mustClose(t, s)
		}
		if moved := len(disk.Beside(path, disk.SuffixDamaged)) == 1; moved != damaged ||
			damaged != errors.Is(err, store.ErrNoSpace) || !damaged && err != nil {
			t.Errorf("damaged %t: moved aside %t, %v", damaged, moved, err)
		}
	}
}

// TestAddressSpaceLimit checks that a store works with less address space than Open would like to map.
func TestAddressSpaceLimit(t *testing.T) {
	path, _ := populated(t, true)
	runChild(t, "address-space-limit", path)
}

func childAddressSpaceLimit(path string) error {
	var pages uint64
	text, err := os.ReadFile("/proc/self/statm")
	if err == nil {
		_, err = fmt.Sscan(string(text), &pages)
	}
	if err != nil {
		return err
	}
	limit := syscall.Rlimit{Cur: pages*uint64(os.Getpagesize()) + 1<<30}
	limit.Max = limit.Cur
	if err := syscall.Setrlimit(syscall.RLIMIT_AS, &limit); err != nil {
		return err
	}
	for _, readOnly := range []bool{true, false} {
		s, err := store.Open(path, store.Options{ReadOnly: readOnly, Logger: &quiet})
		if err != nil {
			return err
		}
		if !readOnly {
			err = put(s, []byte("v"), "k")
		}
		if _, other := store.Open(path, store.Options{LockTimeout: -1}); !errors.Is(other, store.ErrLocked) {
			return fmt.Errorf("read-only %t: the file is not locked: %w", readOnly, other)
		}
		_, readErr := readAll(s)
		if err := errors.Join(err, readErr, s.Close()); err != nil {
			return err
		}
	}
	return nil
}
