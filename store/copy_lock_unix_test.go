//go:build unix

package store_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/larder-dev/larder/internal/storetest/disk"
	"github.com/larder-dev/larder/store"
)

// lookingContext has somebody look each time it is asked.
type lookingContext struct {
	context.Context
	look func()
}

func (c lookingContext) Err() error {
	c.look()
	return c.Context.Err()
}

// A copy is locked while it is made: another save to the same path takes what is not for debris.
func TestCopyFileIsLocked(t *testing.T) {
	dir := t.TempDir()
	s, err := store.Open(filepath.Join(dir, "a.db"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	base, looked := filepath.Join(dir, "b.larder"), 0
	ctx := lookingContext{t.Context(), func() {
		for _, name := range disk.Beside(base, disk.SuffixNew) {
			f, err := os.OpenFile(name, os.O_RDWR, 0)
			if err != nil {
				t.Error(err)
				continue
			}
			looked++
			if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); !errors.Is(err, syscall.EWOULDBLOCK) {
				t.Errorf("it is free: %v", err)
			}
			_ = f.Close()
		}
	}}
	name, err := s.CopyFile(ctx, base)
	if err != nil || looked == 0 {
		t.Fatalf("looked %d times, %v", looked, err)
	}
	copied, err := s.OpenCopy(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	if err := copied.Close(); err != nil {
		t.Error(err)
	}
}
