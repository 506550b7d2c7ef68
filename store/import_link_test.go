package store

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestImportsNameComesAndGoes: another program's file that is gone again before it can be looked at does not pass for
// the store.
func TestImportsNameComesAndGoes(t *testing.T) {
	dir := t.TempDir()
	from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
	if err := os.WriteFile(from, []byte("store"), 0o600); err != nil {
		t.Fatal(err)
	}
	tries := 0
	comesAndGoes := func(times int) func(from, to string) error {
		return func(from, to string) error {
			if tries++; tries <= times {
				return &os.LinkError{Op: "link", Old: from, New: to, Err: os.ErrExist}
			}
			return os.Link(from, to)
		}
	}
	if err := linkName(from, to, comesAndGoes(1<<30)); !errors.Is(err, ErrExists) || tries != nameTries {
		t.Errorf("a name that never becomes free: %v, %d tries", err, tries)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 || entries[0].Name() != "from" {
		t.Errorf("%v, %v", entries, err)
	}
	tries = 0
	if err := linkName(from, to, comesAndGoes(1)); err != nil {
		t.Fatal(err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 || entries[0].Name() != "to" {
		t.Errorf("%v, %v", entries, err)
	}
}
