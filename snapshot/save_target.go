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

// suffixNew is what the names of files that are being made have behind that of their target, and something random after
// it.
const suffixNew = ".new-"

// saveAt has write make the snapshot at path: under another name beside it, which it gets in one step when all is on
// the disk. Of several saves at a time the last one stays, or with KeepExisting the first.
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

// nameNew gives a new file its name: in place of what has it, unless keep is set, or a store has been made there
// meanwhile. Then it is by a link, which replaces nothing, and where there are none by looking first.
func nameNew(name, target string, keep bool) error {
	if !keep {
		if err := noStore(target); err != nil {
			return err
		}
		return os.Rename(name, target)
	}
	err := os.Link(name, target)
	if err == nil {
		_ = os.Remove(name) // else the next save to this path does
		return nil
	}
	if _, there := os.Lstat(target); there == nil || errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s has been made meanwhile, and is kept: %w", target, fs.ErrExist)
	}
	return os.Rename(name, target)
}

// targetOf follows links to the file that is made or replaced. That must not be anything else than a file, and no
// store.
func targetOf(path string) (string, error) {
	if path == "" {
		return "", errors.New("the path is empty; name the file to make")
	}
	real, err := filepath.EvalSymlinks(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return path, nil // a link that leads nowhere is replaced
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

// noStore is an error if what is at path is a store, or might be.
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

// The two meta pages of a bbolt file, its first, have this behind their heads of 16 bytes, in the byte order of the
// machine that made it. Either is enough for a store to be opened, or rebuilt.
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

// createNew makes a file beside the target and locks it, by which other saves see that it is no debris.
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
		// Another save has taken it for debris, before it was locked.
		if err := errors.Join(f.Close(), removeIfThere(name)); err != nil {
			return nil, err
		}
	}
}

// hasName says whether the name still is that of the open file.
func hasName(f *os.File, name string) bool {
	named, err := os.Lstat(name)
	if err != nil {
		return false
	}
	opened, err := f.Stat()
	return err == nil && os.SameFile(named, opened)
}

// removeDebris removes what saves that were killed have left beside their target, and nothing that another one has
// locked. What cannot be removed is tried again next time.
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

// removeDead removes a file unless a process makes it. What cannot be opened is not told from that, be it for want of
// file descriptors. It is opened for writing: else NFS does not lock it.
func removeDead(name string) {
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return
	}
	dead := isFree(f)
	if dead && runtime.GOOS != "windows" { // while it is locked
		_ = os.Remove(name)
	}
	_ = f.Close() // it was only looked at
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

// syncDir makes the names in a directory durable, where that can be done.
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
		err = nil // file systems that cannot do it have no use for it
	}
	return errors.Join(err, d.Close())
}
