package boltfile

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Exchange describes how a copy of the file, for example a compacted one, replaces the file.
type Exchange struct {
	// Copy copies old to a file made by Fresh, complete and synced. If Copy fails, it leaves no file.
	Copy func(ctx context.Context, old *Handle) (fresh *Handle, err error)
	// Aside is true for a damaged old file, which is moved aside instead of removed.
	Aside bool
	// InUse is called when the copy becomes current, before any caller reads it. It must not use the File. May be nil.
	InUse func()
	// Retired is called when the old file is closed, unless another replaced file still has readers. May be nil.
	Retired func()

	// removed is true if the open file was removed or moved away, so that no file has its name.
	removed bool
}

// BeginExchange takes the writer lock for w, and blocks PauseExchanges until the caller calls end.
func (f *File) BeginExchange(ctx context.Context, w Work) (end func(), err error) {
	release, err := f.TakeWriter(ctx, w)
	if err != nil {
		return nil, err
	}
	f.exchanging.Lock()
	return func() {
		f.exchanging.Unlock()
		release()
	}, nil
}

// PauseExchanges waits for the end of a running Exchange, but not for other writes, which a failing disk
// may never finish. No exchange begins until the caller calls resume.
func (f *File) PauseExchanges(ctx context.Context) (resume func(), err error) {
	if err := f.exchanging.LockContext(ctx); err != nil {
		return nil, f.waited(err)
	}
	return f.exchanging.Unlock, nil
}

// Exchange copies the file, gives the copy its name, and makes the File use the copy. At every moment a whole file has
// the name. If Exchange fails, the File still uses the old file, and the copy is removed. The caller holds the writer
// lock and the right to exchange, as after BeginExchange. movedTo is the new name of the old file if Aside is set.
//
// Exchange holds the Mark: otherwise a process that opens the file would remove the copy as debris.
func (f *File) Exchange(ctx context.Context, x Exchange) (movedTo string, err error) {
	old, err := f.acquire()
	if err != nil {
		return "", err
	}
	defer old.Release()
	err = f.withMark(ctx, time.Now().Add(f.o.LockTimeout), func(*Mark) error {
		fresh, err := x.Copy(ctx, old)
		if err != nil {
			return err
		}
		if err := fresh.View(fresh.adopt); err != nil {
			return errors.Join(err, fresh.Discard())
		}
		if movedTo, err = f.giveName(x, old, fresh); err != nil {
			return errors.Join(err, fresh.Discard())
		}
		f.moveIn(x, old, fresh)
		return nil
	})
	return movedTo, err
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

func (f *File) giveName(x Exchange, old, fresh *Handle) (movedTo string, err error) {
	switch {
	case x.Aside:
		return f.replaceDamaged(old, fresh)
	case x.removed:
		return "", TakeName(fresh.Path, f.real)
	case !hasName(old.File, f.real):
		return "", fmt.Errorf("the file has been moved or removed, or another has taken its name: %w", ErrForeign)
	}
	return "", os.Rename(fresh.Path, f.real)
}

// replaceDamaged moves the old file aside and gives its name to the copy. If the file system has hard links, either the
// old file or the copy is at the path at every moment. replaceDamaged never replaces any other file.
func (f *File) replaceDamaged(old, fresh *Handle) (movedTo string, err error) {
	if hasName(old.File, f.real) {
		movedTo, err = setAside(f.real, linkOrRename)
		if err != nil {
			return "", fmt.Errorf("move the old file aside: %w", err)
		}
	}
	if movedTo != "" && hasName(old.File, f.real) { // The old file has two names now, real and movedTo.
		err = os.Rename(fresh.Path, f.real)
	} else {
		err = TakeName(fresh.Path, f.real)
	}
	if errors.Is(err, ErrExists) {
		err = fmt.Errorf("another file has taken its name; move that away (%w)", errors.Join(ErrForeign, err))
	}
	return movedTo, err
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
