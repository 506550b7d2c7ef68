package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store/internal/boltfile"
	"github.com/larder-dev/larder/store/seal"
)

// Compacted says what Compact has done.
type Compacted struct {
	// Before and After are sizes of the file, in bytes.
	Before int64 `json:"before"`
	After  int64 `json:"after"`
}

// Compact compacts the store at path, which no process may have open, and closes it. Unlike Open it makes no file and
// moves none aside: a file that is missing, damaged (ErrDamaged), newer or not a store is an error and left alone. Of
// the options it takes LockTimeout, MaxSize and Logger. For a store that is open there is Store.Compact, which says the
// rest.
func Compact(ctx context.Context, path string, o Options) (Compacted, error) {
	o.Encryption = nil // what is sealed is copied as it is
	s, err := openClosed(ctx, path, o)
	if err != nil {
		return Compacted{}, fmt.Errorf("compact: %w", err)
	}
	done, err := s.Compact(ctx)
	return done, errors.Join(err, s.Close())
}

// openClosed opens a store, which must be there, for as long as it takes to write it anew.
func openClosed(ctx context.Context, path string, o Options) (*Store, error) {
	s := newStore(path, Options{
		LockTimeout: o.LockTimeout, MaxSize: o.MaxSize, Logger: o.Logger, Encryption: o.Encryption, Hooks: o.Hooks,
		ForgetAfter: -1, pageSize: o.pageSize,
	})
	if err := s.resolve(); err != nil {
		return nil, err
	}
	switch info, err := os.Lstat(s.real); {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s: it is no regular file: %w", path, ErrForeign)
	}
	deadline := time.Now().Add(s.o.lockTimeout())
	err := s.fetchKeys(ctx)
	if err == nil {
		err = s.withMark(ctx, deadline, func(mark *boltfile.Mark) error { return s.openAsIs(ctx, mark, deadline) })
	}
	if err != nil {
		return nil, fmt.Errorf("%s: open it: %w", path, err)
	}
	s.startUpkeep()
	return s, nil
}

// Compact writes the store anew without its free pages, and puts the new file in the place of the old one. bbolt uses
// free pages again and never returns them; after many deletes they are most of a file, and each commit writes the list
// of them.
//
// The store is checked first: a damaged one is left as it is (ErrDamaged), and Rebuild is what helps. The copy is in
// the directory and on the disk before it gets the name, in one step: whenever the process dies, one of the two is
// there, whole; the next Open removes what is left of a copy. It needs room for that copy (ErrNoSpace says how much).
// The new file has the owner and the mode of the old one, so that root can do it for a service; who may not give it to
// that owner fails.
//
// Open collections go on working. Reads do not wait. Commits, lists and the opening of collections wait for the copy;
// Apply does not, until too much is pending. On Windows, where a file that is open cannot be replaced, it always
// fails.
func (s *Store) Compact(ctx context.Context) (Compacted, error) {
	done, err := s.compact(ctx, nil)
	if err != nil {
		return Compacted{}, fmt.Errorf("compact %s: %w", s.path, err)
	}
	return done, nil
}

// compact is Compact, and Rekey if fresh is the key that everything is to be sealed with.
func (s *Store) compact(ctx context.Context, fresh *seal.DataKey) (done Compacted, err error) {
	switch {
	case s.ReadOnly():
		return done, ErrReadOnly
	case !boltfile.RenamesOpen:
		return done, errors.New("not possible on this system, where a file that is open cannot be replaced")
	}
	report, err := s.Check(ctx)
	if err != nil {
		return done, err
	}
	if len(report.Problems) > 0 {
		return done, fmt.Errorf("%w: %s", entry.ErrDamaged, report.Problems[0])
	}
	release, err := s.takeWriter(ctx, compacting)
	if err != nil {
		return done, err
	}
	defer release()
	s.exchanging.Lock()
	defer s.exchanging.Unlock()
	if err := s.Err(); err != nil {
		return done, fmt.Errorf("nothing is written any more: %w", err)
	}
	total, free, err := s.Size()
	if err != nil {
		return done, err
	}
	c := newCopier(s, fresh, false)
	err = s.exchange(ctx, c, func() error {
		info, err := c.fresh.File.Stat()
		if err == nil {
			done = Compacted{Before: total, After: info.Size()}
			err = s.takePlace(c)
		}
		return err
	})
	if errors.Is(err, ErrNoSpace) {
		err = fmt.Errorf("there must be room for a second copy, about %d MiB: %w", (total-free+1<<20-1)>>20, err)
	}
	if err != nil {
		return Compacted{}, err
	}
	s.logger().V(2).Info("The store has been compacted", "bytesBefore", done.Before, "bytesAfter", done.After)
	return done, nil
}

// takePlace gives a copy the name of the old file.
func (s *Store) takePlace(c *copier) error {
	if !boltfile.HasName(c.old.File, s.real) {
		return fmt.Errorf("the file has been moved or removed, or another has taken its name: %w", ErrForeign)
	}
	return os.Rename(c.fresh.Path, s.real)
}
