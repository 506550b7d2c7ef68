// Package wholefile writes files atomically: after a crash a file is complete or absent.
package base

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

// suffixNew is in the names of unfinished files: the target's name, suffixNew and random characters.
const suffixNew = ".new-"

// ErrNotSynced: the file was written, but its directory was not synced. After a power loss the old file may be back.
var ErrNotSynced = errors.New("its directory was not synced, and a crash of the machine may bring back the old one")

// WriteOptions are the options of WriteFile. With the zero value, WriteFile replaces any file.
type WriteOptions struct {
	// May returns an error if the file at path must not be replaced. WriteFile calls May before it writes the temporary
	// file, and again before the rename.
	May func(path string) error
	// Ours reports whether this program writes files of that name in the directory. WriteFile removes unfinished files of
	// these names. By default, WriteFile removes only unfinished files for its own path.
	Ours func(name string) bool
}

// WriteFile creates or replaces the file at path: it calls write on a temporary file, syncs it and renames it to path.
// The file's mode is 0600. A symbolic link is followed; a dangling link is replaced. If several processes write to path
// concurrently the last rename wins. Unfinished files of killed processes are removed.
func WriteFile(path string, o WriteOptions, write func(*os.File) error) error {
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
	if runtime.GOOS == "windows" { // Windows cannot rename an open file
		err = errors.Join(err, f.Close())
	}
	if err == nil && o.May != nil {
		err = o.May(target)
	}
	if err == nil {
		err = os.Rename(name, target)
	}
	if runtime.GOOS != "windows" {
		// The file is closed last, because its lock keeps other processes from removing it.
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

func targetOf(path string) (string, error) {
	if path == "" {
		return "", errors.New("the path is empty; name the file to make")
	}
	real, err := filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) {
		return path, nil // the link's target does not exist, so the link itself is replaced
	}
	return real, err
}

// createNew creates a temporary file beside the target file. It locks the temporary file, so that other processes do
// not remove it as unfinished.
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
		// Another process has removed the file before this process locked it.
		if err := errors.Join(f.Close(), removeIfThere(name)); err != nil {
			return nil, err
		}
	}
}

// hasName reports whether the path name still refers to the open file f.
func hasName(f *os.File, name string) bool {
	named, err := os.Lstat(name)
	if err != nil {
		return false
	}
	opened, err := f.Stat()
	return err == nil && os.SameFile(named, opened)
}

// removeDebris removes the unfinished files of killed processes in a directory. Files that a process has locked stay.
// Errors are ignored, because the next WriteFile tries again.
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

// removeDead removes an unfinished file unless a process has locked the file or it cannot be opened. It opens the file
// for writing, because NFS locks only files that are open for writing.
func removeDead(name string) {
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return
	}
	dead := tryLock(f)
	if dead && runtime.GOOS != "windows" { // the file is removed while it is locked, which Windows does not allow
		_ = os.Remove(name)
	}
	_ = f.Close() // an error of closing an unchanged file loses nothing
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

// SyncDir syncs a directory, so that the names in the directory survive a power loss. It does nothing on systems that
// cannot sync directories.
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
		err = nil // the file system cannot sync directories, which is no error
	}
	return errors.Join(err, d.Close())
}
