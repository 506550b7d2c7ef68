package snapshot

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"github.com/larder-dev/larder/store"
)

// suffixNew follows the target's name in the names of unfinished files; random characters follow it.
const suffixNew = ".new-"

// saveAt calls write with a new file beside path, syncs it, and renames it to path. If several processes save to path
// at the same time the last one stays, or with KeepExisting the first.
func saveAt(path string, o SaveOptions, write func(w io.Writer, target string) (Saved, error)) (Saved, error) {
	target, err := targetOf(path)
	if err != nil {
		return Saved{}, fmt.Errorf("save to %s: %w", path, err)
	}
	removeDebris(target)
	f, err := createNew(target)
	if err != nil {
		return Saved{}, fmt.Errorf("save to %s: %w", path, err)
	}
	name := f.Name()
	saved, err := write(f, target)
	if err == nil && o.Accept != nil {
		err = o.Accept(saved)
	}
	if err == nil {
		err = f.Sync()
	}
	if runtime.GOOS == "windows" { // where a file that is open cannot be renamed
		err = errors.Join(err, f.Close())
	}
	if err == nil {
		err = nameNew(name, target, o.KeepExisting)
	}
	if runtime.GOOS != "windows" { // until it has its name, another save may take it for debris if nobody has it locked
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return Saved{}, fmt.Errorf("save to %s: %w", path, errors.Join(err, removeIfThere(name)))
	}
	if err := syncDir(filepath.Dir(target)); err != nil {
		return Saved{},
			fmt.Errorf(
				"save to %s: the snapshot is there, but its directory could not be synced, and a crash of the machine may bring "+
					"the old one back: %w", path, err)
	}
	return saved, nil
}

// nameNew renames a new file to target. It replaces a file there, unless keep is true or a store has been made there
// meanwhile. To replace nothing it uses a hard link or, if the file system has none, looks first.
func nameNew(name, target string, keep bool) error {
	if !keep {
		if err := noStore(target); err != nil {
			return err
		}
		return os.Rename(name, target)
	}
	err := os.Link(name, target)
	if err == nil {
		_ = os.Remove(name) // if this fails, the next save to this path does it
		return nil
	}
	if _, there := os.Lstat(target); there == nil || errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s has been made meanwhile, and is kept: %w", target, fs.ErrExist)
	}
	return os.Rename(name, target)
}

// targetOf follows symbolic links to the file that is to be made or replaced. It fails if that is a store, or anything
// else but a regular file.
func targetOf(path string) (string, error) {
	if path == "" {
		return "", errors.New("the path is empty; name the file to make")
	}
	real, err := filepath.EvalSymlinks(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return path, nil // a dangling link is replaced
	case err != nil:
		return "", err
	}
	info, err := os.Stat(real)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", errors.New("it is there and no regular file; choose another name, or write to a stream")
	}
	return real, noStore(real)
}

// noStore returns an error if the file at path is a store, or may be one.
func noStore(path string) error {
	isStore, err := isStore(path)
	switch {
	case isStore:
		return fmt.Errorf("it is a store, which a snapshot must not replace; choose another name: %w", store.ErrExists)
	case errors.Is(err, fs.ErrNotExist):
		return nil
	}
	return err
}

// The first two pages of a bbolt file, its meta pages, have this number after a header of 16 bytes, in the byte order
// of the machine that made the file. One valid meta page is enough to open or rebuild a store.
const (
	boltMagic       = 0xED0CDAED
	boltMagicAt     = 16
	leastPageSize   = 512
	largestPageSize = 64 << 10
)

// isStore reports whether the file at path looks like a store.
func isStore(path string) (bool, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrPermission) {
		return false, fmt.Errorf("what is there cannot be read, and might be a store: %w", err)
	}
	if err != nil {
		return false, err
	}
	defer func() { _ = f.Close() }()
	for page := int64(0); page <= largestPageSize; page = max(2*page, leastPageSize) {
		var magic [4]byte
		switch _, err := f.ReadAt(magic[:], page+boltMagicAt); {
		case errors.Is(err, io.EOF): // it is too short
			return false, nil
		case err != nil:
			return false, err
		case binary.LittleEndian.Uint32(magic[:]) == boltMagic, binary.BigEndian.Uint32(magic[:]) == boltMagic:
			return true, nil
		}
	}
	return false, nil
}

// createNew makes a file beside the target and locks it, so that other saves do not remove it as debris.
func createNew(target string) (*os.File, error) {
	for {
		name := target + suffixNew + rand.Text()
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return nil, err
		}
		if isFree(f) && hasName(f, name) {
			return f, nil
		}
		// Another save has removed it as debris before it was locked.
		if err := errors.Join(f.Close(), removeIfThere(name)); err != nil {
			return nil, err
		}
	}
}

// hasName reports whether the open file still has the name.
func hasName(f *os.File, name string) bool {
	named, err := os.Lstat(name)
	if err != nil {
		return false
	}
	opened, err := f.Stat()
	return err == nil && os.SameFile(named, opened)
}

// removeDebris removes the unfinished files of killed saves beside the target, but none that another save has locked.
// It ignores errors; the next save tries again.
func removeDebris(target string) {
	dir, prefix := filepath.Dir(target), filepath.Base(target)+suffixNew
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), prefix) && e.Type().IsRegular() {
			removeDead(filepath.Join(dir, e.Name()))
		}
	}
}

// removeDead removes a file unless a process has locked it. It leaves a file that it cannot open, for whatever reason.
// It opens the file for writing, because otherwise NFS does not lock it.
func removeDead(name string) {
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return
	}
	dead := isFree(f)
	if dead && runtime.GOOS != "windows" { // while it is locked
		_ = os.Remove(name)
	}
	_ = f.Close() // nothing was written
	if dead && runtime.GOOS == "windows" {
		_ = os.Remove(name)
	}
}

func removeIfThere(name string) error {
	err := os.Remove(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// syncDir syncs a directory, so that the names in it survive a power loss. It does nothing where that is not possible.
func syncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) {
		err = nil // the file system does not support it
	}
	return errors.Join(err, d.Close())
}
