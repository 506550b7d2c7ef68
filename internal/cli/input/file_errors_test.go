package input_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/internal/cli/input"
	"github.com/larder-dev/larder/internal/source"
	"github.com/larder-dev/larder/store"
)

// TestPathErrors checks hints for errors that a test cannot provoke on every machine.
func TestPathErrors(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "s.db")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		path string
		err  error
		hint string
	}{
		{path, &fs.PathError{Op: "open", Path: path, Err: syscall.EROFS},
			"that file system is read-only: mount it for writing, or name a file on another one"},
		{filepath.Join(dir, "new.db"), &fs.PathError{Op: "open", Path: filepath.Join(dir, "new.db.opening"),
			Err: syscall.EROFS}, "that file system is read-only"},
		{filepath.Join(dir, "new.db"), fmt.Errorf("make it: %w: %w", store.ErrNoSpace, syscall.ENOSPC),
			"make room on that disk"},
		{path, &fs.PathError{Op: "open", Path: path + ".opening", Err: syscall.EACCES}, "write to its directory, too"},
		{path, &fs.PathError{Op: "open", Path: path, Err: syscall.EACCES}, "run as that user"},
		{filepath.Join(dir, "new.db"), &fs.PathError{Op: "open", Path: filepath.Join(dir, "new.db.opening"),
			Err: syscall.EACCES}, "in a directory that you may write to"},
	} {
		err := input.PathError(test.path, fmt.Errorf("open: %w", test.err))
		if !strings.Contains(command.HintOf(err), test.hint) || !errors.Is(err, test.err) {
			t.Errorf("%v: %v, hint %q", test.err, err, command.HintOf(err))
		}
	}
}

// TestStoppedSyncHint checks the hint if a stopped or stuck sync holds the store: the hint does not call the sync
// another program, and suggests kill -CONT.
func TestStoppedSyncHint(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	err := input.StoreError(path, &source.HeldError{Path: path, Socket: path + ".sock",
		Err: fmt.Errorf("%w in 3s", source.ErrNoAnswer)})
	if !strings.Contains(command.HintOf(err),
		"the sync that holds it is stopped or stuck: let it go on (kill -CONT)") || !errors.Is(err, store.ErrLocked) {
		t.Errorf("%v, hint %q", err, command.HintOf(err))
	}
}
