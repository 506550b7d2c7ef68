package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

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
// If the store is damaged, Compact fails with ErrDamaged and changes nothing. The copy is written in the
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
	release, err := s.file.TakeWriter(ctx, compacting)
	if err != nil {
		return done, err
	}
	defer release()
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
	err = s.file.Exchange(ctx, x)
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

var errNoKeys = errors.New("the store was opened without keys")

// Rekey opens the store at path, calls Store.Rekey and closes the store. No process may have it open. Rekey uses the
// options Encryption, which is required, LockTimeout, MaxSize and Logger. It moves no damaged file aside.
func Rekey(ctx context.Context, path string, o Options) (Compacted, error) {
	if o.Encryption == nil {
		return Compacted{}, fmt.Errorf("rekey %s: %w", path, errNoKeys)
	}
	s, err := openClosed(ctx, path, o)
	if err != nil {
		return Compacted{}, fmt.Errorf("rekey: %w", err)
	}
	done, err := s.Rekey(ctx)
	return done, errors.Join(err, s.Close())
}

// Rekey writes the store anew, as Compact does, and seals all records of sealed collections with a new data key, which
// is wrapped under the provider's current key. This includes records that were stored in plain text before
// Options.Encryption was set (Info.PlainText). The new file has no other data key, so the provider needs no older keys.
//
// Open collections go on working. Rekey fails with ErrIncompatible if a collection has records of a newer program. It
// does not change copies of the old file, backups, or damaged files that were moved aside before.
func (s *Store) Rekey(ctx context.Context) (Compacted, error) {
	done, err := s.rekey(ctx)
	if err != nil {
		return Compacted{}, fmt.Errorf("rekey %s: %w", s.file.Path, err)
	}
	return done, nil
}

func (s *Store) rekey(ctx context.Context) (Compacted, error) {
	switch {
	case s.keys.Locked():
		return Compacted{}, errNoKeys
	case s.ReadOnly():
		return Compacted{}, ErrReadOnly
	}
	fresh, key, err := s.keys.Renewed(ctx)
	if err != nil {
		return Compacted{}, err
	}
	done, err := s.compact(ctx, fresh)
	if err == nil {
		s.logger().V(1).Info("The store has been sealed anew", "key", key)
	}
	return done, err
}

// CopyTo writes a consistent copy of the file to w, and returns the number of bytes written. The copy can be opened as
// a store. Dirty changes are committed first; if that fails the copy lacks them.
//
// Readers and writers do not wait for CopyTo. But pages that become free meanwhile cannot be reused, so the file grows
// with each write: w should be fast, such as a file. w is called in a transaction, and must not use the store. CopyTo
// checks ctx before each write to w. If the file cannot be read, or is shorter than it should be, the error wraps
// ErrDamaged. If w fails, CopyTo returns the error of w, or ErrNoSpace.
func (s *Store) CopyTo(ctx context.Context, w io.Writer) (n int64, err error) {
	if err := s.flushForCopy(ctx); err != nil {
		return 0, fmt.Errorf("copy %s: %w", s.file.Path, err)
	}
	n, err = s.file.CopyTo(ctx, w)
	if err != nil {
		return n, fmt.Errorf("copy %s: %w", s.file.Path, err)
	}
	return n, nil
}

// flushForCopy commits the dirty changes. It logs a failure, and returns an error only if ctx has ended.
func (s *Store) flushForCopy(ctx context.Context) error {
	if s.ReadOnly() || !s.commits.Dirty() {
		return ctx.Err()
	}
	if err := s.Flush(ctx); err != nil && ctx.Err() == nil {
		s.logger().Info("A copy of the store lacks the latest changes, because they could not be committed before it", "why",
			err.Error())
	}
	return ctx.Err()
}

// CopyFile makes a temporary copy of the file, as CopyTo does, with mode 0600, and returns its name. The copy is not
// synced. The caller removes it.
//
// The copy is in the store's directory, which is trusted with the contents. The system's temporary directory may be in
// memory. The name of the copy is <path>.new-*: if the process dies, the next open for writing removes it. The copy
// needs disk space for the part of the file that has ever been in use; without it CopyFile fails with ErrNoSpace.
func (s *Store) CopyFile(ctx context.Context) (name string, err error) {
	name = s.file.Beside()
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", fmt.Errorf("copy %s: %w", s.file.Path, boltfile.ClassifySpace(err))
	}
	_, err = s.CopyTo(ctx, f)
	if closed := f.Close(); err == nil && closed != nil {
		err = fmt.Errorf("copy %s: %w", s.file.Path, boltfile.ClassifySpace(closed))
	}
	if err != nil {
		return "", errors.Join(err, os.Remove(name))
	}
	return name, nil
}

// OpenCopy opens a file that CopyFile has made, for reading, with the keys of the store.
func (s *Store) OpenCopy(ctx context.Context, name string) (*Store, error) {
	return OpenContext(ctx, name, Options{ReadOnly: true, Logger: s.o.Logger, Encryption: s.o.Encryption})
}
