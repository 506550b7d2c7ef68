package store_test

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"

	"github.com/larder-dev/larder/store"
)

// TestCompactOnAFullDisk checks that the error of Compact names the needed space, and that no file is left behind.
func TestCompactOnAFullDisk(t *testing.T) {
	dir, ok := mountSmall(t)
	if !ok {
		return
	}
	path := filepath.Join(dir, "store")
	s := mustOpen(t, path, store.Options{})
	many := mustCollection(t, s, pods())
	mustList(t, many, 1000)
	ballast, err := os.Create(filepath.Join(dir, "ballast"))
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = ballast.Write(make([]byte, 4096))
	}
	if err := ballast.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Compact(t.Context()); !errors.Is(err, store.ErrNoSpace) ||
		!regexp.MustCompile(`room for a second copy, about \d+ MiB`).MatchString(err.Error()) {
		t.Errorf("compact: %v", err)
	}
	if s.Err() != nil {
		t.Errorf("Err: %v", s.Err())
	}
	wantNames(t, dir, "ballast", "store")
	mustClose(t, s)
	if _, err := store.Compact(t.Context(), path, store.Options{Logger: &quiet}); !errors.Is(err, store.ErrNoSpace) {
		t.Errorf("compact at its path: %v", err)
	}
	wantNames(t, dir, "ballast", "store")
	if err := os.Remove(ballast.Name()); err != nil {
		t.Fatal(err)
	}
	s = mustOpen(t, path, store.Options{})
	if _, err := s.Compact(t.Context()); err != nil {
		t.Errorf("with room: %v", err)
	}
	wantUsable(t, s, mustCollection(t, s, pods()))
}

func TestCompactInAReadOnlyDirectory(t *testing.T) {
	dir, ok := mountSmall(t)
	if !ok {
		return
	}
	path := filepath.Join(dir, "store")
	mustClose(t, mustOpen(t, path, store.Options{}))
	if err := syscall.Mount("", dir, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Compact(t.Context(), path, store.Options{Logger: &quiet}); !errors.Is(err, syscall.EROFS) {
		t.Errorf("compact: %v", err)
	}
	wantNames(t, dir, "store")
}
