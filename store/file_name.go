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
// If nothing has the name, the file was removed or moved away, and what the open one holds is written anew under the
// name. Another file of that name is somebody else's: it is left alone, and the error wraps ErrReplaced. Both are
// looked at again before each write, so that whoever moves the other file away, or the first one back, need not start
// the process again. After a copy that has failed, though, writes fail for some seconds without another.
//
// Who may not look into the directory any more goes on with the open file while that has a name somewhere.
func (s *Store) keepName(ctx context.Context) error {
	if !boltfile.RenamesOpen || s.ReadOnly() {
		return nil
	}
	lost, err := s.lostName()
	if !lost || err != nil {
		return err
	}
	err = s.anew.err
	if time.Now().After(s.anew.next) || s.isClosed() { // then it is the last chance
		err = s.writeAnew(ctx)
	}
	if err != nil {
		return fmt.Errorf("the file %s was removed, and what it held cannot be written anew: %w", s.real, err)
	}
	return nil
}

// lostName reports whether nothing has the store's name. If another file has it that is the error.
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

// whereabouts says which file is open; where the system tells, with the name that it has by now.
func whereabouts(f *os.File) string {
	if name, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", f.Fd())); err == nil {
		return "the file that is open, now " + name
	}
	return "the file that is open"
}

// writeAnew copies the open file, which has lost its name, to a new one of that name. It is as safe as a compaction:
// the copy is on the disk before it gets the name, and it never takes the name from another file.
func (s *Store) writeAnew(ctx context.Context) error {
	if err := makeDir(filepath.Dir(s.real)); err != nil {
		return err
	}
	s.exchanging.Lock()
	defer s.exchanging.Unlock()
	c := newCopier(s, nil, false)
	err := s.exchange(ctx, c, func() error { return takeName(c.fresh.Path, s.real) })
	if err == nil || ctx.Err() == nil { // who gives up says nothing of the next try
		s.anew.tried(err)
	}
	if err != nil {
		return err
	}
	s.logger().Error(nil,
		"The store's file was removed while it was open: what it held has been written anew under its name", "to", s.real)
	return nil
}

// A copy of a file that was removed, if it fails, is not begun again before the first of these has passed; it doubles
// up to the other.
const (
	anewRetry    = time.Second
	anewRetryMax = time.Minute
)

// anew is when a copy of a file that was removed may be begun again, since a large one takes the disk for long. It
// belongs to who has the writer's place.
type anew struct {
	err  error // of the last copy
	wait time.Duration
	next time.Time
}

// tried notes how a copy has ended.
func (a *anew) tried(err error) {
	if err == nil {
		*a = anew{}
		return
	}
	a.err, a.wait = err, min(max(2*a.wait, anewRetry), anewRetryMax)
	a.next = time.Now().Add(a.wait)
}
