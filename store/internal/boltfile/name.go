package boltfile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/larder-dev/larder/store/internal/format"
)

// KeepName verifies, before each write, that the open file still has its name, by device and inode. The caller has the
// writer lock.
//
// If no file has the name, the open file was removed or moved away, and KeepName writes a copy of it under the name. If
// the outcome of a commit is unknown, KeepName exchanges the file for a copy: after a failed fsync the kernel may drop
// pages that were written. After a failed copy, writes fail without another attempt for a while; see anew. If another
// file has the name, KeepName leaves that file alone and returns an error that wraps ErrReplaced. A write works again,
// without a restart, after an operator moves the other file away, or the store's file back.
//
// If the process may not read the directory any more, KeepName accepts an open file that has any name.
func (f *File) KeepName(ctx context.Context) error {
	if !RenamesOpen || f.o.ReadOnly {
		return nil
	}
	lost, err := f.lostName()
	unknown := f.unknown
	if err != nil || !lost && unknown == nil {
		return err
	}
	err = f.anew.err
	if time.Now().After(f.anew.next) || f.ending() { // An ending File makes its last attempt without delay.
		err = f.writeAnew(ctx, lost)
	}
	switch {
	case err == nil:
		return nil
	case lost:
		return fmt.Errorf("the file %s was removed, and what it held cannot be written anew: %w", f.real, err)
	}
	return fmt.Errorf("%w; the file cannot be copied: %w", unknown.Err, err) // No UnknownError: this is no commit.
}

// lostName reports whether the open file's name is gone. It fails with ErrReplaced if another file has the name.
func (f *File) lostName() (lost bool, err error) {
	h, err := f.acquire()
	if err != nil {
		return false, err
	}
	defer h.Release()
	named, err := os.Lstat(f.real)
	hidden := errors.Is(err, fs.ErrPermission)
	if hidden && !f.hidden {
		f.Logger().Error(err, "The store's directory cannot be looked into: the file that is open is written on, and only "+
			"its removal is noticed")
	}
	f.hidden = hidden
	switch {
	case hidden:
		return nameless(h.File), nil
	case isMissing(err):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("%s: %w", f.Path, err)
	case !os.SameFile(h.Identity, named):
		return false, fmt.Errorf("%s, %d bytes of %s, is not %s: %w",
			f.real, named.Size(), named.ModTime().UTC().Format(time.RFC3339), whereabouts(h.File), ErrReplaced)
	}
	return false, nil
}

func whereabouts(f *os.File) string {
	if name, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", f.Fd())); err == nil {
		return "the file that is open, now " + name
	}
	return "the file that is open"
}

// writeAnew copies the open file to a new file, and uses the new file. lost is true if the open file has lost its name.
// It is as safe as a compaction: the copy is synced before it gets the name, and it never replaces another file.
func (f *File) writeAnew(ctx context.Context, lost bool) error {
	if err := MakeDir(filepath.Dir(f.real)); err != nil {
		return err
	}
	copies := func(ctx context.Context, old *Handle) (*Handle, error) { return f.o.Copy(ctx, old, false) }
	err := f.Exchange(ctx, Exchange{Copy: copies, removed: lost})
	if err == nil || ctx.Err() == nil { // A canceled copy does not delay the next attempt.
		f.anew.tried(err)
	}
	switch {
	case err != nil:
		return err
	case lost:
		f.Logger().Error(nil,
			"The store's file was removed while it was open: what it held has been written anew under its name", "to", f.real)
	default:
		f.Logger().Info("The store's file has been exchanged for a copy, because the outcome of a write was unknown")
	}
	return nil
}

// A failed copy of the file is retried after anewRetry. The delay doubles after each failure, up to anewRetryMax.
const (
	anewRetry    = time.Second
	anewRetryMax = time.Minute
)

// anew limits how often writeAnew copies the file, since copying a large file keeps the disk busy. Only the holder of
// the writer lock may use it.
type anew struct {
	err  error         // err is the error of the last copy, or nil.
	wait time.Duration // wait is the delay before the next copy.
	next time.Time     // next is the earliest time of the next copy.
}

func (a *anew) tried(err error) {
	if err == nil {
		*a = anew{}
		return
	}
	a.err, a.wait = err, min(max(2*a.wait, anewRetry), anewRetryMax)
	a.next = time.Now().Add(a.wait)
}

// WantNone returns ErrExists if anything exists at path.
func WantNone(path string) error {
	switch _, err := os.Lstat(path); {
	case isMissing(err):
		return nil
	case err != nil:
		return err
	}
	return errTaken
}

var errTaken = fmt.Errorf("%w; move it away or choose another name", ErrExists)

// TakeName renames a file, and fails with ErrExists if to exists. It uses a hard link, which never replaces a file. On
// a file system without hard links, it first checks that to does not exist, and then renames. No store can appear in
// between, since the caller holds the Mark.
func TakeName(from, to string) error {
	err := os.Link(from, to)
	switch {
	case err == nil:
		_ = os.Remove(from) // After a failed Remove, the next open for writing removes the temporary name.
		return nil
	case errors.Is(err, os.ErrExist):
		return errTaken
	}
	if err := WantNone(to); err != nil {
		return err
	}
	return os.Rename(from, to)
}

// keepDamaged bounds the number of damaged files beside the store, so that a bad disk does not fill up.
const keepDamaged = 2

// setAside renames the damaged file at path with move, and returns the new name, <path>.damaged-<UTC>. It removes the
// oldest of the other damaged files by name, and leaves keepDamaged files.
func setAside(path string, move func(from, to string) error) (string, error) {
	stamp := path + format.SuffixDamaged + time.Now().UTC().Format("20060102T150405.000000000Z")
	name := stamp
	for n := 2; ; n++ {
		if _, err := os.Lstat(name); isMissing(err) {
			break
		} else if err != nil {
			return "", err
		}
		name = fmt.Sprintf("%s-%d", stamp, n)
	}
	if err := move(path, name); err != nil {
		return "", err
	}
	// The new file stays even if other damaged files have later times in their names: the clock may have been set back.
	old := slices.DeleteFunc(beside(path, format.SuffixDamaged), func(other string) bool { return other == name })
	for _, extra := range old[:max(len(old)-(keepDamaged-1), 0)] {
		_ = os.Remove(extra)
	}
	return name, syncReadable(filepath.Dir(path))
}
