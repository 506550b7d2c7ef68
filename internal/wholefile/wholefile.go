// Package wholefile writes files that are there as a whole or not at all.
package wholefile

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
)

// suffixNew follows the target's name in the names of unfinished files; random characters follow it.
const suffixNew = ".new-"

// ErrNotSynced: the file is there, but a crash of the machine may bring the old one back.
var ErrNotSynced = errors.New("its directory was not synced, and a crash of the machine may bring back the old one")

// Options are the options of Write. The zero value replaces any file.
type Options struct {
	// May returns an error if what is at a path must not be replaced. It is called before anything is written, and again
	// before the new file gets its name.
	May func(path string) error
	// Ours reports whether a name is of those that Write is called for in this directory; then unfinished files of all
	// of these are removed. Default: those of the path.
	Ours func(name string) bool
}

// Write makes the file at path, or replaces it, with what write writes, once that is on the disk. Its mode is 0600. A
// symbolic link is followed; one that leads nowhere is replaced. If several processes write to path at the same time
// the last one stays. Unfinished files of processes that were killed are removed.
func Write(path string, o Options, write func(*os.File) error) error {
	target, err := targetOf(path)
	if err == nil && o.May != nil {
		err = o.May(target)
	}
	if err != nil {
		return err
	}
	base := filepath.Base(target)
	removeDebris(filepath.Dir(target), func(name string) bool { return name == base || o.Ours != nil && o.Ours(name) })
	f, err := createNew(target)
	if err != nil {
		return err
	}
	name := f.Name()
	err = write(f)
	if err == nil {
		err = f.Sync()
	}
	if runtime.GOOS == "windows" { // where a file that is open cannot be renamed
		err = errors.Join(err, f.Close())
	}
	if err == nil && o.May != nil {
		err = o.May(target)
	}
	if err == nil {
		err = os.Rename(name, target)
	}
	if runtime.GOOS != "windows" { // until it has its name, another one may take it for debris if nobody has it locked
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return errors.Join(err, removeIfThere(name))
	}
	if err := SyncDir(filepath.Dir(target)); err != nil {
		return fmt.Errorf("%w: %w", ErrNotSynced, err)
	}
	return nil
}

// targetOf follows symbolic links to the file that is to be made or replaced.
func targetOf(path string) (string, error) {
	if path == "" {
		return "", errors.New("the path is empty; name the file to make")
	}
	real, err := filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) {
		return path, nil // a dangling link is replaced
	}
	return real, err
}

// createNew makes a file beside the target and locks it, so that others do not remove it as debris.
func createNew(target string) (*os.File, error) {
	for {
		name := target + suffixNew + rand.Text()
		f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return nil, err
		}
		if tryLock(f) && hasName(f, name) {
			return f, nil
		}
		// Another one has removed it as debris before it was locked.
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

// removeDebris removes the unfinished files in a directory of killed processes, but none that a process has locked. It
// ignores errors; the next one tries again.
func removeDebris(dir string, ours func(name string) bool) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		at := strings.LastIndex(e.Name(), suffixNew)
		if at >= 0 && ours(e.Name()[:at]) && e.Type().IsRegular() {
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
	dead := tryLock(f)
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

// SyncDir syncs a directory, so that the names in it survive a power loss. It does nothing where that is not possible.
func SyncDir(dir string) error {
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
