package boltfile

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/boltcheck"
)

// Exchange describes how a copy of the file, for example a compacted one, replaces the file.
type Exchange struct {
	// Copy copies old to a file made by Fresh, complete and synced. If Copy fails, it leaves no file.
	Copy func(ctx context.Context, old *Handle) (fresh *Handle, err error)
	// InUse is called when the copy becomes current, before any caller reads it. It must not use the File. May be nil.
	InUse func()
	// Retired is called when the old file is closed, unless another replaced file still has readers. May be nil.
	Retired func()

	// removed is true if the open file was removed or moved away, so that no file has its name.
	removed bool
}

// Exchange copies the file, gives the copy its name, and makes the File use the copy. At every moment a whole file has
// the name. If Exchange fails, the File still uses the old file, and the copy is removed. The caller holds the writer
// lock.
//
// Exchange holds the Mark: otherwise a process that opens the file would remove the copy as debris.
func (f *File) Exchange(ctx context.Context, x Exchange) error {
	old, err := f.acquire()
	if err != nil {
		return err
	}
	defer old.Release()
	return f.withMark(ctx, time.Now().Add(f.o.LockTimeout), func(*Mark) error {
		at, err := f.verify(ctx, old)
		if err != nil {
			return err
		}
		fresh, err := x.Copy(ctx, old)
		if err != nil {
			return f.failCopy(old, err)
		}
		if again, err := idOf(old); err != nil || again != at {
			return errors.Join(f.failCopy(old, &FaultError{What: "its state has changed while it was copied"}), err,
				fresh.Discard())
		}
		if err := fresh.View(fresh.adopt); err != nil {
			return errors.Join(err, fresh.Discard())
		}
		if err := f.giveName(x, old, fresh); err != nil {
			return errors.Join(err, fresh.Discard())
		}
		f.moveIn(x, old, fresh)
		if f.unknown != nil {
			f.unknown.resolved, f.unknown.committed = true, at >= f.unknown.txID
			f.unknown = nil
		}
		return nil
	})
}

// verify returns the id of the newest transaction in the file of old. If the outcome of a commit is unknown, it first
// verifies every page, because the kernel may read back old pages after a failed sync.
func (f *File) verify(ctx context.Context, old *Handle) (txID int, err error) {
	if f.unknown == nil {
		return idOf(old)
	}
	err = old.View(func(tx *bolt.Tx) error {
		txID = tx.ID()
		info, err := old.File.Stat()
		if err != nil {
			return err
		}
		pages, err := boltcheck.OpenTx(old.File, info.Size(), uint64(txID))
		if err != nil {
			return OwnErrors(err)
		}
		problems, err := pages.Walk(ctx, boltcheck.WalkOptions{})
		if len(problems) > 0 {
			return PagesError(f.Path, problems)
		}
		return OwnErrors(err)
	})
	return txID, f.failCopy(old, err)
}

// failCopy stops all writes if err is damage that a copy of the file of old has found, while the outcome of a commit is
// unknown. It returns err.
func (f *File) failCopy(old *Handle, err error) error {
	if f.unknown != nil && errors.Is(err, entry.ErrDamaged) {
		f.Fail(old, err)
	}
	return err
}

// idOf returns the id of the newest transaction in the file of h.
func idOf(h *Handle) (txID int, err error) {
	err = h.View(func(tx *bolt.Tx) error {
		txID = tx.ID()
		return nil
	})
	return txID, err
}

// Fresh makes an empty file under a temporary name, for a copy of old.
func (f *File) Fresh(old *Handle) (*Handle, error) {
	size := int64(0)
	if info, err := old.File.Stat(); err == nil {
		size = info.Size()
	}
	return createTemporary(f.real, creating{maxSize: f.MaxSize, pageSize: f.o.PageSize, mapped: mapSize(size)})
}

// Beside returns a name for a temporary file beside the file. After a crash, the next Open for writing removes it.
func (f *File) Beside() string { return temporaryName(f.real) }

func (f *File) giveName(x Exchange, old, fresh *Handle) error {
	switch err := f.Err(); {
	case err != nil: // The damage may have been found after the copier had read its page.
		return fmt.Errorf("nothing is written any more: %w", err)
	case x.removed:
		return TakeName(fresh.Path, f.real)
	case !hasName(old.File, f.real):
		return fmt.Errorf("the file has been moved or removed, or another has taken its name: %w", ErrForeign)
	}
	return os.Rename(fresh.Path, f.real)
}

// linkOrRename gives a file a second name. On a file system without hard links it renames the file.
func linkOrRename(from, to string) error {
	if os.Link(from, to) == nil {
		return nil
	}
	return os.Rename(from, to)
}

// moveIn makes fresh the current handle, and closes the old file. The file of fresh has the final name already.
func (f *File) moveIn(x Exchange, old, fresh *Handle) {
	if err := SyncDir(filepath.Dir(f.real)); err != nil {
		f.Logger().Error(err, "The directory could not be synced: a crash of the machine may undo that the file got its name")
	}
	fresh.Path = f.real
	inUse := x.InUse
	if inUse == nil {
		inUse = func() {}
	}
	f.use(fresh, inUse)
	f.retire(old, x.Retired)
}

// retire closes a replaced file in the background, after its last reader.
func (f *File) retire(old *Handle, retired func()) {
	f.retiring.Add(1)
	f.Go("close the file that has been replaced", func(context.Context) {
		if err := old.Close(); err != nil {
			f.Logger().Error(err, "The file that has been replaced could not be closed")
		}
		if f.retiring.Add(-1) == 0 && retired != nil {
			retired()
		}
	})
}
