package boltfile

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/base"
)

// openTries bounds the attempts of Open to replace a damaged file.
const openTries = 3

// Open opens the file, or makes a missing file, with its directory. It follows a symbolic link once and never replaces
// it. If the target is missing, Open makes the file there, in a directory that must exist. It moves a damaged file
// aside (see Quarantined), and makes a new one of its readable part. See Unverified for the pages that Open has not
// verified.
//
// Open fails with ErrLocked while another File has the file locked (the error names the process; readers share their
// lock), with ErrNewerFormat if a newer program wrote the file, and with ErrForeign if it is not a store. In these
// cases it does not change the file.
//
// With Options.ReadOnly Open changes nothing on the disk. It fails for a missing file, and with ErrDamaged for a
// damaged file.
func (f *File) Open(ctx context.Context) error {
	deadline := time.Now().Add(f.o.LockTimeout)
	if f.o.ReadOnly {
		return f.openToRead(ctx, deadline)
	}
	if err := MakeDir(filepath.Dir(f.Path)); err != nil {
		return err
	}
	if err := f.resolve(); err != nil {
		return err
	}
	if _, err := f.regular(); err != nil && !isMissing(err) {
		return err
	}
	return f.withMark(ctx, deadline, func(mark *Mark) error {
		for range openTries {
			if err := f.ensure(); err != nil {
				return err
			}
			err := f.openAsIs(ctx, mark, deadline)
			if !errors.Is(err, entry.ErrDamaged) {
				return err
			}
			if err := f.replaceDamaged(ctx, mark, err, deadline); err != nil {
				return err
			}
		}
		return fmt.Errorf("it was damaged each time it was made anew: %w", entry.ErrDamaged)
	})
}

// OpenExisting opens a regular, undamaged file as Open does, and fails otherwise.
func (f *File) OpenExisting(ctx context.Context) error {
	if err := f.resolve(); err != nil {
		return err
	}
	if _, err := f.regular(); err != nil {
		return fmt.Errorf("%s: %w", f.Path, err)
	}
	deadline := time.Now().Add(f.o.LockTimeout)
	err := f.withMark(ctx, deadline, func(mark *Mark) error { return f.openAsIs(ctx, mark, deadline) })
	if err != nil {
		return fmt.Errorf("%s: open it: %w", f.Path, err)
	}
	return nil
}

// resolve resolves the symbolic links of the path, once: a link that replaces the file later is never followed.
func (f *File) resolve() (err error) {
	f.real, err = base.RealPath(f.Path)
	return err
}

// regular returns the file's info. It fails with ErrForeign for anything but a regular file, since an open of a pipe
// would wait for its other end. It also fails if the file is too large to be mapped.
func (f *File) regular() (os.FileInfo, error) {
	info, err := os.Lstat(f.real)
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%w: it is no regular file", ErrForeign)
	}
	if err == nil && info.Size() > mappable {
		err = fmt.Errorf("it has %.1f GiB, and a 32-bit program can use a file of 2 GiB at most: use a 64-bit program, "+
			"or another file", float64(info.Size())/(1<<30))
	}
	return info, err
}

// withMark calls fn while it holds the Mark. If the File has failed then, withMark leaves a Mark for the next process.
func (f *File) withMark(ctx context.Context, deadline time.Time, fn func(mark *Mark) error) error {
	mark, err := TakeMark(ctx, f.real, deadline)
	if err != nil {
		return err
	}
	err = fn(mark)
	if released := mark.Release(); released != nil {
		f.Logger().Error(released, "The mark beside the store could not be removed; the next process will verify the store")
	}
	failure := f.Err()
	if copies := mark.Copies || errors.Is(failure, entry.ErrDamaged); copies || failure != nil || f.unknown != nil {
		f.leaveMark(copies) // Release has removed this process's Mark.
	}
	return err
}

var errFoundDamaged = fmt.Errorf("an earlier process has found it damaged: %w", entry.ErrDamaged)

// openAsIs opens the existing file. It fails with ErrDamaged for a damaged file, and does not move it.
func (f *File) openAsIs(ctx context.Context, mark *Mark, deadline time.Time) error {
	locked, err := openLocked(ctx, f.real, os.O_RDWR, true, deadline)
	if err != nil {
		return err
	}
	RemoveDebris(f.real)
	mark.Count()
	if mark.Copies {
		return errors.Join(errFoundDamaged, locked.Close())
	}
	o := opening{
		Path: f.real, File: locked, MaxSize: f.MaxSize, branchBytes: branchBytes, Verify: mark.Crashes > 0,
	}
	h, err := f.openUnlocked(ctx, &o)
	if err != nil {
		return err
	}
	return o.judge(f.start(h, &o))
}

func (f *File) openToRead(ctx context.Context, deadline time.Time) error {
	var locked *os.File
	err := f.resolve()
	if err == nil {
		_, err = f.regular()
	}
	if err == nil {
		locked, err = openLocked(ctx, f.real, os.O_RDONLY, false, deadline)
	}
	if isMissing(err) {
		return fmt.Errorf("there is none, and opening for reading makes none: %w", err)
	}
	if err != nil {
		return err
	}
	o := opening{
		Path: f.real, File: locked, ReadOnly: true, branchBytes: branchBytes, Verify: crashesSaid(f.real) > 0,
	}
	h, err := f.openUnlocked(ctx, &o)
	if err != nil {
		return err
	}
	f.use(h, func() {})
	return nil
}

func (f *File) openUnlocked(ctx context.Context, o *opening) (*Handle, error) {
	h, err := o.Open()
	if err != nil {
		return nil, err
	}
	if err := f.o.Unlock(ctx, h); err != nil {
		return nil, errors.Join(o.judge(err), h.Close())
	}
	return h, nil
}

// start makes h the current handle for writing, and removes the key in the root bucket that says that the file was
// closed cleanly. On a full or failing disk, the file is still opened for reading, and the first successful write
// removes the key.
func (f *File) start(h *Handle, o *opening) error {
	f.use(h, func() {})
	f.steady.Store(o.root.times.resume(f.Wall()))
	err := f.syncLeft(h)
	if err == nil {
		f.markedClean = true
		// updateOpen skips KeepName, which may take the Mark: this caller holds the Mark.
		err = f.updateOpen(Upkeep, f.PutTimes)
	}
	switch {
	case errors.Is(err, ErrNoSpace):
		f.Logger().Error(err, "The disk is full: the store can be read, and not be written")
	case errors.Is(err, ErrOutcomeUnknown):
		f.Logger().Error(err, "The disk fails: the store can be read, and not be written")
	case err != nil:
		f.use(nil, func() { f.failure, f.failed = nil, make(chan struct{}) }) // The caller judges err.
		return errors.Join(err, h.Close())
	}
	f.clearLeft()
	f.unverified, f.wasClean = !o.root.clean || o.Unseen, o.root.clean
	return nil
}

// syncLeft syncs the file and its name. A process that was killed may have left its last commit in the kernel only.
// Without this sync, a power failure could lose the name, and with it all commits of this process. Or it could revert
// the last commit: then the previous meta page is current, and this process's commits have overwritten its pages.
func (f *File) syncLeft(h *Handle) error {
	if err := SyncDir(filepath.Dir(f.real)); err != nil {
		f.Logger().Error(err, "The directory could not be synced: if another process has just made the file, a crash of "+
			"the machine may undo that")
	}
	if err := h.File.Sync(); err != nil {
		return f.failUnknown(h, &UnknownError{Err: fmt.Errorf("sync %s: %w: %w", f.Path, ErrOutcomeUnknown, err)})
	}
	return nil
}

// replaceDamaged moves the damaged file aside. A copy of its readable part takes its name, unless a process has died
// while it copied the file, or the copy fails. The caller holds mark, so no other process can have replaced the file.
func (f *File) replaceDamaged(ctx context.Context, mark *Mark, reason error, deadline time.Time) error {
	if mark.Crashes < crashesAtMost {
		mark.Crashes = crashesAtMost - 1
		mark.Count()
		old, err := f.openDamaged(ctx, deadline)
		if err == nil {
			if err := f.o.Unlock(ctx, old); err != nil && !errors.Is(err, entry.ErrDamaged) {
				return errors.Join(err, old.Close()) // Without their keys, sealed records would be lost.
			}
			err = f.salvage(ctx, old, reason)
		}
		if err == nil {
			mark.Copies = false
			return nil
		}
		if ctx.Err() != nil {
			return err
		}
		f.Logger().Error(err, "The readable part of the damaged store could not be copied")
	}
	mark.Copies = false
	return f.quarantine(reason)
}

// crashesAtMost is the number of crashes in the Mark after which a damaged file is not copied.
const crashesAtMost = 2

// openDamaged opens the damaged file for reading. Otherwise bbolt would read the freelist, which may be damaged.
func (f *File) openDamaged(ctx context.Context, deadline time.Time) (*Handle, error) {
	locked, err := openLocked(ctx, f.real, os.O_RDWR, true, deadline)
	if err != nil {
		return nil, err
	}
	o := opening{Path: f.real, File: locked, ReadOnly: true}
	return o.openBolt(0)
}

// salvage exchanges old, the damaged file, for a copy of its readable part. It closes old.
func (f *File) salvage(ctx context.Context, old *Handle, reason error) error {
	fresh, err := f.o.Copy(ctx, old, true)
	if err != nil {
		return errors.Join(err, old.Close())
	}
	movedTo := ""
	err = errors.Join(old.Close(), fresh.Close())
	if err == nil {
		movedTo, err = setAside(f.real, linkOrRename)
	}
	if err == nil {
		err = os.Rename(fresh.Path, f.real)
	}
	if err != nil {
		return errors.Join(err, os.Remove(fresh.Path))
	}
	f.quarantined = movedTo
	f.Logger().Error(reason, "The store was damaged: its readable part has been copied, and the damaged file has been "+
		"moved aside", "movedTo", movedTo)
	return syncReadable(filepath.Dir(f.real))
}

func (f *File) ensure() error {
	info, err := f.regular()
	switch {
	case isMissing(err):
	case err != nil:
		return err
	case info.Size() > 0:
		return nil
	default:
		f.Logger().Info("The store is an empty file, as a crash can leave it; it is made anew")
	}
	return create(f.real, creating{pageSize: f.o.PageSize}) // MaxSize applies only to later writes.
}

// quarantine moves the damaged file aside.
func (f *File) quarantine(reason error) error {
	name, err := setAside(f.real, os.Rename)
	if err != nil {
		return fmt.Errorf("it is damaged (%w) and cannot be moved aside: %w", reason, err)
	}
	f.quarantined = name
	f.Logger().Error(reason, "The store was damaged: it has been moved aside and is made anew", "movedTo", name)
	return nil
}

// MakeDir makes the directory and its missing parents, with access only for their owner. It also syncs the names of the
// new directories, except in a parent that cannot be opened for reading.
func MakeDir(dir string) error {
	if _, err := os.Stat(dir); !isMissing(err) {
		return err
	}
	parent := filepath.Dir(dir)
	if err := MakeDir(parent); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	if err := syncReadable(parent); err != nil {
		return fmt.Errorf("sync the directory %s: %w", parent, err)
	}
	return nil
}

// syncReadable is SyncDir, but does nothing if this process may not read the directory.
func syncReadable(dir string) error {
	if err := SyncDir(dir); !errors.Is(err, os.ErrPermission) {
		return err
	}
	return nil
}
