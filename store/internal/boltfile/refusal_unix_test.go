//go:build unix

package boltfile

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/boltcheck"
	"github.com/larder-dev/larder/store/internal/format"
)

var quiet = logr.Discard()

func wantFiles(t *testing.T, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if err != nil || strings.Join(names, " ") != strings.Join(want, " ") {
		t.Errorf("the directory has %q, want %q (%v)", names, want, err)
	}
}

func mustCloseFile(t *testing.T, f *File) {
	t.Helper()
	f.CloseBackground()
	if _, err := f.Close(); err != nil {
		t.Error(err)
	}
}

// TestOpenGivesUp checks that Open fails after openTries attempts if each newly created file is damaged, too. Each
// attempt unlocks the file twice, the second time to copy the readable part.
func TestOpenGivesUp(t *testing.T) {
	dir := t.TempDir()
	attempts := 0
	f := New(filepath.Join(dir, "store"), Options{Logger: &quiet, Unlock: func(context.Context, *Handle) error {
		if attempts++; attempts > 10 {
			return errors.New("it does not give up")
		}
		return entry.ErrDamaged
	}})
	err := f.Open(t.Context())
	if !errors.Is(err, entry.ErrDamaged) || !strings.Contains(err.Error(), "each time") || attempts != 2*openTries {
		t.Errorf("%d attempts: %v", attempts, err)
	}
	if kept := beside(f.Path, format.SuffixDamaged); len(kept) != keepDamaged {
		t.Errorf("%q are kept", kept)
	}
}

// TestUnlockThatMeetsAFault checks that a temporary read error in Options.Unlock does not count as damage.
func TestUnlockThatMeetsAFault(t *testing.T) {
	path := fileWithBranches(t, 4<<10)
	for _, readOnly := range []bool{true, false} {
		f := New(path, Options{Logger: &quiet, ReadOnly: readOnly, Unlock: func(_ context.Context, h *Handle) error {
			return h.View(func(*bolt.Tx) error { panic(fault{}) })
		}})
		if err := f.Open(t.Context()); err == nil || errors.Is(err, entry.ErrDamaged) {
			t.Errorf("read-only %t: %v", readOnly, err)
		}
		wantFiles(t, filepath.Dir(path), "store")
	}
	f := New(path, Options{Logger: &quiet})
	if err := f.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	mustCloseFile(t, f)
}

// TestSyncThatFails checks that after a failed sync the file is copied before it is written, since its last commit may
// not be on the disk.
func TestSyncThatFails(t *testing.T) {
	path := fileWithBranches(t, 4<<10)
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	closed, err := os.Open(path)
	if err := errors.Join(err, closed.Close()); err != nil {
		t.Fatal(err)
	}
	o := &opening{Path: path, File: file, branchBytes: branchBytes}
	h, err := o.Open()
	if err != nil {
		t.Fatal(err)
	}
	f := New(path, Options{Logger: &quiet})
	if err := f.resolve(); err != nil {
		t.Fatal(err)
	}
	own := h.File
	h.File = closed
	err = f.start(h, o)
	h.File = own
	if err != nil || f.unknown == nil || !errors.Is(f.unknown, ErrOutcomeUnknown) || !errors.Is(f.unknown, os.ErrClosed) {
		t.Errorf("start: %v; outcome unknown: %v", err, f.unknown)
	}
	if err := f.Update(t.Context(), Upkeep, f.PutTimes); !errors.Is(err, ErrOutcomeUnknown) {
		t.Errorf("a write: %v", err)
	}
	mustCloseFile(t, f)
	wantFiles(t, filepath.Dir(path), "store", "store"+format.SuffixOpening)
}

// TestClosedFile checks that a read error of a file is neither ErrDamaged nor ErrForeign.
func TestClosedFile(t *testing.T) {
	path := fileWithBranches(t, 4<<10)
	pages, _ := mustPages(t, path, nil)
	closed, err := os.Open(path)
	if err := errors.Join(err, closed.Close()); err != nil {
		t.Fatal(err)
	}
	o := &opening{Path: path, File: closed}
	_, inspected := o.inspect()
	_, opened := o.openBolt(0)
	for what, err := range map[string]error{
		"inspect": inspected, "openBolt": opened, "judgeRoot": o.judgeRoot(pages), "KeepOwner": KeepOwner(closed, closed),
	} {
		if !errors.Is(err, os.ErrClosed) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := tryLock(closed, true); err == nil {
		t.Error("a closed file was locked")
	}
	if hasName(closed, path) {
		t.Error("a closed file has the name")
	}
}

// TestLockTakenInBetween checks that Open fails with ErrLocked if another process locks the file before bbolt does.
func TestLockTakenInBetween(t *testing.T) {
	path := fileWithBranches(t, 4<<10)
	other, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if ok, err := tryLock(other, true); !ok || err != nil {
		t.Fatal(ok, err)
	}
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if h, err := (&opening{Path: path, File: file}).Open(); h != nil || !errors.Is(err, ErrLocked) {
		t.Errorf("%v, %v", h, err)
	}
	if err := file.Close(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("close again: %v", err)
	}
	if err := other.Close(); err != nil {
		t.Error(err)
	}
}

func TestRootPageWithFlippedBits(t *testing.T) {
	for flips, want := range map[string]bool{"": true, "\x01": true, "\x01\x80": true, "\x03\x80": false} {
		page := append([]byte("....."), format.BucketLarder...)
		for i := range len(flips) {
			page[5+i] ^= flips[i]
		}
		if rootPageIsOurs(page) != want {
			t.Errorf("%q: %t", flips, !want)
		}
	}
}

// TestLinkInPlaceOfTheFile checks that Open refuses a symbolic link that replaced the file after resolve.
func TestLinkInPlaceOfTheFile(t *testing.T) {
	dir := t.TempDir()
	target, path := filepath.Join(dir, "target"), filepath.Join(dir, "store")
	for _, size := range []int{0, 9000} {
		f := New(path, Options{Logger: &quiet})
		if err := f.resolve(); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(os.WriteFile(target, make([]byte, size), 0o600), os.Symlink(target, path)); err != nil {
			t.Fatal(err)
		}
		if err := f.ensure(); !errors.Is(err, ErrForeign) {
			t.Errorf("%d bytes: %v", size, err)
		}
		if to, err := os.Readlink(path); err != nil || to != target {
			t.Errorf("the link leads to %q, %v", to, err)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRenamesThatFail checks that create removes its temporary file, and that setAside leaves the damaged file.
func TestRenamesThatFail(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "store")
	if err := errors.Join(os.Mkdir(path, 0o700), os.WriteFile(filepath.Join(path, "file"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := create(path, creating{}); err == nil || !strings.Contains(err.Error(), "make it: ") {
		t.Errorf("create: %v", err)
	}
	why := errors.New("why")
	if name, err := setAside(path, func(_, _ string) error { return why }); !errors.Is(err, why) || name != "" {
		t.Errorf("setAside: %q, %v", name, err)
	}
	wantFiles(t, dir, "store")
}

// TestTakeNameWithoutLinks checks that TakeName replaces nothing where hard links fail, as for a directory.
func TestTakeNameWithoutLinks(t *testing.T) {
	dir := t.TempDir()
	from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
	if err := errors.Join(os.Mkdir(from, 0o700), os.Mkdir(to, 0o700)); err != nil {
		t.Fatal(err)
	}
	if err := TakeName(from, to); !errors.Is(err, ErrExists) {
		t.Errorf("over a directory: %v", err)
	}
	wantFiles(t, dir, "from", "to")
	if err := errors.Join(os.Remove(to), TakeName(from, to)); err != nil {
		t.Error(err)
	}
	wantFiles(t, dir, "to")
	if err := TakeName(to, filepath.Join(dir, "none", "to")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("to a directory that is missing: %v", err)
	}
}

// TestCountInAMark checks how the number of crashes is read from the Mark, the file <path>.opening.
func TestCountInAMark(t *testing.T) {
	store := filepath.Join(t.TempDir(), "store")
	if n := crashesSaid(store); n != 0 {
		t.Errorf("no mark: %d", n)
	}
	for text, want := range map[string]int{"": 0, " \n": 0, "1\n": 1, "12\n": 12, "0": 1, "-3\n": 1, "x": 1,
		strings.Repeat("9", 30): 1} {
		if err := os.WriteFile(store+format.SuffixOpening, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if n := crashesSaid(store); n != want {
			t.Errorf("%q: %d, want %d", text, n, want)
		}
	}
	if err := errors.Join(os.Remove(store+format.SuffixOpening), os.Mkdir(store+format.SuffixOpening, 0o700)); err != nil {
		t.Fatal(err)
	}
	if n := crashesSaid(store); n != 1 {
		t.Errorf("a directory: %d", n)
	}
}

// TestPagesThatVanish checks that all writes stop after a read transaction (ViewFile) has found damage.
func TestPagesThatVanish(t *testing.T) {
	path := fileWithBranches(t, 4<<10)
	f := New(path, Options{Logger: &quiet})
	if err := f.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	err := f.ViewFile(t.Context(), func(*Handle, int64, uint64) error { return boltcheck.ErrDamaged })
	if !errors.Is(err, entry.ErrDamaged) || !errors.Is(f.Err(), entry.ErrDamaged) {
		t.Errorf("%v; Err: %v", err, f.Err())
	}
	mustCloseFile(t, f)
}

// TestFileThatCannotBeMapped checks that a 32-bit program refuses a file of more than 2 GiB with an error that explains
// why, before it writes anything (issue 38). The test sets the variable mappable; with GOARCH=386 the limit is real.
func TestFileThatCannotBeMapped(t *testing.T) {
	defer func(before int64) { mappable = before }(mappable)
	path := fileWithBranches(t, 4<<10)
	if err := os.Truncate(path, 3<<30); err != nil { // a sparse file of 3 GiB
		t.Fatal(err)
	}
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	mappable = min(mappable, 1<<31-1)
	for name, open := range map[string]func(context.Context) error{
		"Open":         New(path, Options{Logger: &quiet}).Open,
		"OpenExisting": New(path, Options{Logger: &quiet}).OpenExisting,
		"ReadOnly":     New(path, Options{Logger: &quiet, ReadOnly: true}).Open,
	} {
		if err := open(t.Context()); err == nil || !strings.Contains(err.Error(), "it has 3.0 GiB, and a 32-bit program") {
			t.Errorf("%s: %v", name, err)
		}
		after, err := os.Stat(path)
		dir, dirErr := os.Stat(filepath.Dir(path))
		if err := errors.Join(err, dirErr); err != nil {
			t.Fatal(err)
		}
		if after.ModTime() != before.ModTime() || dir.ModTime().After(before.ModTime()) {
			t.Errorf("%s has written to the file or its directory", name)
		}
		wantFiles(t, filepath.Dir(path), "store")
	}
}

// TestFileGrowsUntilItCanBeMapped checks that a file stops growing below the mappable size, with ErrNoSpace.
func TestFileGrowsUntilItCanBeMapped(t *testing.T) {
	defer func(before int64) { mappable = before }(mappable)
	mappable = mapReserve + 16<<20
	f := New(filepath.Join(t.TempDir(), "store"), Options{Logger: &quiet})
	if err := f.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer mustCloseFile(t, f)
	err := f.Update(t.Context(), Upkeep, func(tx *bolt.Tx) error {
		return tx.Bucket(format.BucketLarder).Put([]byte("large"), make([]byte, 20<<20))
	})
	if !errors.Is(err, ErrNoSpace) {
		t.Errorf("a file beyond the bound: %v", err)
	}
}
