package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store/internal/boltfile"
	"github.com/larder-dev/larder/store/internal/copier"
	"github.com/larder-dev/larder/store/internal/crypt"
)

// Compacted is the result of Compact.
type Compacted struct {
	// Before and After are the sizes of the file in bytes.
	Before int64 `json:"before"`
	After  int64 `json:"after"`
}

// Compact opens the store at path, compacts it as Store.Compact does, and closes it. No other process may have it open.
// Unlike Open it creates no file and moves none aside: if the file is missing, damaged (ErrDamaged), newer or not a
// store, Compact fails and leaves it alone. It uses only the options LockTimeout, MaxSize and Logger.
func Compact(ctx context.Context, path string, o Options) (Compacted, error) {
	o.Encryption = nil // Compact copies sealed records unchanged, and needs no keys
	s, err := openClosed(ctx, path, o)
	if err != nil {
		return Compacted{}, fmt.Errorf("compact: %w", err)
	}
	done, err := s.Compact(ctx)
	return done, errors.Join(err, s.Close())
}

// openClosed opens an existing store to rewrite it. It fails if there is no regular file at path.
func openClosed(ctx context.Context, path string, o Options) (*Store, error) {
	s := newStore(path, Options{
		LockTimeout: o.LockTimeout, MaxSize: o.MaxSize, Logger: o.Logger, Encryption: o.Encryption, Hooks: o.Hooks,
		pageSize: o.pageSize,
	})
	if err := s.keys.Fetch(ctx, s.o.Encryption, s.logger()); err != nil {
		return nil, fmt.Errorf("%s: open it: %w", path, err)
	}
	if err := s.file.OpenExisting(ctx); err != nil {
		return nil, err
	}
	s.startUpkeep()
	return s, nil
}

// copier returns a copier of the file. If fresh is not nil, its keys seal the copy.
func (s *Store) copier(fresh *crypt.Ring) *copier.Copier {
	return &copier.Copier{File: s.file, Keys: &s.keys, Fresh: fresh, Seals: s.Seals}
}

// Compact copies the store to a new file without free pages, and replaces the old file with it. bbolt reuses free pages
// but never returns them to the file system, and each commit writes their list.
//
// If the store is damaged, Compact fails with ErrDamaged and changes nothing; use Rebuild. The copy is written in the
// store's directory, synced and renamed. After a crash either the old file or the new one is complete, and the next
// Open removes an unfinished copy. Compact needs disk space for the copy (ErrNoSpace says how much). The new file gets
// the owner and the mode of the old one, or Compact fails. So root can compact a service's store.
//
// Open collections go on working. Reads do not wait. Commits, lists and the opening of collections wait for the copy;
// Apply waits only for backpressure. On Windows, where an open file cannot be replaced, Compact always fails.
func (s *Store) Compact(ctx context.Context) (Compacted, error) {
	done, err := s.compact(ctx, nil)
	if err != nil {
		return Compacted{}, fmt.Errorf("compact %s: %w", s.file.Path, err)
	}
	return done, nil
}

// compact implements Compact, and Rekey if fresh is not nil: keys of fresh then seal the copy.
func (s *Store) compact(ctx context.Context, fresh *crypt.Ring) (done Compacted, err error) {
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
	end, err := s.file.BeginExchange(ctx, compacting)
	if err != nil {
		return done, err
	}
	defer end()
	if err := s.Err(); err != nil {
		return done, fmt.Errorf("nothing is written any more: %w", err)
	}
	total, free, err := s.Size()
	if err != nil {
		return done, err
	}
	x := boltfile.Exchange{Copy: s.copier(fresh).Copy}
	if fresh != nil {
		x.InUse = func() { s.keys.Add(fresh) }
		x.Retired = func() { s.keys.ForgetOthers(fresh) }
	}
	_, err = s.file.Exchange(ctx, x)
	if errors.Is(err, ErrNoSpace) {
		err = fmt.Errorf("there must be room for a second copy, about %d MiB: %w", (total-free+1<<20-1)>>20, err)
	}
	if err != nil {
		return done, err
	}
	after, _, err := s.Size()
	if err != nil {
		return done, err
	}
	s.logger().V(2).Info("The store has been compacted", "bytesBefore", total, "bytesAfter", after)
	return Compacted{Before: total, After: after}, nil
}
