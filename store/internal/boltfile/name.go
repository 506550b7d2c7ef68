package boltfile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// KeepName verifies that the open file still has its name, by device and inode, before it is written. The caller has
// the writer's place.
//
// If no file has the name, the open file was removed or moved away, and KeepName writes a copy of it under the name. If
// another file has the name, it is left alone, and the error wraps ErrReplaced. The name is checked before each write,
// so the process need not be restarted after the other file is moved away, or the first one back. After a failed copy,
// writes fail without another attempt for a while; see anew.
//
// If the process may not read the directory any more, the open file is used as long as it has a name somewhere.
func (f *File) KeepName(ctx context.Context) error {
	if !RenamesOpen || f.o.ReadOnly {
		return nil
	}
	lost, err := f.lostName()
	if !lost || err != nil {
		return err
	}
	err = f.anew.err
	if time.Now().After(f.anew.next) || f.ending() { // Close has no later attempt
		err = f.writeAnew(ctx)
	}
	if err != nil {
		return fmt.Errorf("the file %s was removed, and what it held cannot be written anew: %w", f.real, err)
	}
	return nil
}

// lostName reports whether no file has the name of the open file. If another file has it, lostName fails with
// ErrReplaced.
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

// whereabouts describes the open file, with its current name if the system tells it.
func whereabouts(f *os.File) string {
	if name, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", f.Fd())); err == nil {
		return "the file that is open, now " + name
	}
	return "the file that is open"
}

// writeAnew copies the open file, which has lost its name, to a new file, and uses that. It is as safe
// as a compaction: the copy is synced before it gets the name, and it never replaces another file.
func (f *File) writeAnew(ctx context.Context) error {
	if err := MakeDir(filepath.Dir(f.real)); err != nil {
		return err
	}
	f.exchanging.Lock()
	defer f.exchanging.Unlock()
	_, err := f.Exchange(ctx, Exchange{Copy: f.o.Copy, removed: true})
	if err == nil || ctx.Err() == nil { // a canceled copy does not delay the next attempt
		f.anew.tried(err)
	}
	if err != nil {
		return err
	}
	f.Logger().Error(nil,
		"The store's file was removed while it was open: what it held has been written anew under its name", "to", f.real)
	return nil
}

// A failed copy of a file that was removed is retried after anewRetry, which doubles up to anewRetryMax.
const (
	anewRetry    = time.Second
	anewRetryMax = time.Minute
)

// anew limits how often a file that was removed is copied, since copying a large one keeps the disk busy. Only the
// holder of the writer's place may use it.
type anew struct {
	err  error         // error of the last copy; nil if it succeeded
	wait time.Duration // backoff after err
	next time.Time     // when the next copy may begin
}

// tried records the result of a copy.
func (a *anew) tried(err error) {
	if err == nil {
		*a = anew{}
		return
	}
	a.err, a.wait = err, min(max(2*a.wait, anewRetry), anewRetryMax)
	a.next = time.Now().Add(a.wait)
}

// WantNone returns ErrExists if there is something at path.
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

// TakeName renames the file from to the name to, and fails with ErrExists if to exists. It uses a hard link, which
// never replaces a file. Where there are none it looks first, then renames: since the caller holds the mark, no store
// can appear in between.
func TakeName(from, to string) error {
	err := os.Link(from, to)
	switch {
	case err == nil:
		_ = os.Remove(from) // if this fails, the next open for writing removes it
		return nil
	case errors.Is(err, os.ErrExist):
		return errTaken
	}
	if err := WantNone(to); err != nil {
		return err
	}
	return os.Rename(from, to)
}
