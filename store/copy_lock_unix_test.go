//go:build unix

package store

import (
	"context"
	"os"
	"path/filepath"
	"testing"
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
	s, err := Open(filepath.Join(dir, "a.db"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	base, looked := filepath.Join(dir, "b.larder"), 0
	ctx := lookingContext{t.Context(), func() {
		for _, name := range beside(base, suffixNew) {
			f, err := os.OpenFile(name, os.O_RDWR, 0)
			if err != nil {
				t.Error(err)
				continue
			}
			looked++
			if free, err := tryLock(f, true); free || err != nil {
				t.Errorf("it is free: %v, %v", free, err)
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
