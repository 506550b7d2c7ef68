package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/larder-dev/larder/store/internal/boltfile"
)

// keepName verifies that the store's file still has the store's name, by device and inode, before it is written. The
// caller has the writer's place, and no handle.
//
// If no file has the name, the store's file was removed or moved away, and keepName writes a copy of the open file
// under the name. If another file has the name, it is left alone, and the error wraps ErrReplaced. The name is checked
// before each write, so the process need not be restarted after the other file is moved away, or the first one back.
// After a failed copy, writes fail without another attempt for a while; see anew.
//
// If the process may not read the directory any more, the open file is used as long as it has a name somewhere.
func (s *Store) keepName(ctx context.Context) error {
	if !boltfile.RenamesOpen || s.ReadOnly() {
		return nil
	}
	lost, err := s.lostName()
	if !lost || err != nil {
		return err
	}
	err = s.anew.err
	if time.Now().After(s.anew.next) || s.isClosed() { // Close has no later attempt
		err = s.writeAnew(ctx)
	}
	if err != nil {
		return fmt.Errorf("the file %s was removed, and what it held cannot be written anew: %w", s.real, err)
	}
	return nil
}

// lostName reports whether no file has the store's name. If another file has it, lostName fails with ErrReplaced.
func (s *Store) lostName() (lost bool, err error) {
	h, err := s.acquire()
	if err != nil {
		return false, err
	}
	defer h.Release()
	named, err := os.Lstat(s.real)
	hidden := errors.Is(err, fs.ErrPermission)
	if hidden && !s.hidden {
		s.logger().Error(err, "The store's directory cannot be looked into: the file that is open is written on, and only "+
			"its removal is noticed")
	}
	s.hidden = hidden
	switch {
	case hidden:
		return boltfile.Nameless(h.File), nil
	case boltfile.IsMissing(err):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("%s: %w", s.path, err)
	case !os.SameFile(h.Identity, named):
		return false, fmt.Errorf("%s, %d bytes of %s, is not %s: %w",
			s.real, named.Size(), named.ModTime().UTC().Format(time.RFC3339), whereabouts(h.File), ErrReplaced)
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

// writeAnew copies the open file, which has lost its name, to a new file, and makes the store use that. It is as safe
// as a compaction: the copy is synced before it gets the name, and it never replaces another file.
func (s *Store) writeAnew(ctx context.Context) error {
	if err := makeDir(filepath.Dir(s.real)); err != nil {
		return err
	}
	s.exchanging.Lock()
	defer s.exchanging.Unlock()
	c := s.copier(nil)
	err := s.exchange(ctx, c, func() error { return takeName(c.Fresh.Path, s.real) })
	if err == nil || ctx.Err() == nil { // a canceled copy does not delay the next attempt
		s.anew.tried(err)
	}
	if err != nil {
		return err
	}
	s.logger().Error(nil,
		"The store's file was removed while it was open: what it held has been written anew under its name", "to", s.real)
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
