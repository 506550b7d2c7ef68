package snapshot

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/larder-dev/larder/internal/wholefile"
)

// suffixNew follows the target's name in the names of unfinished files; random characters follow it.
const suffixNew = ".new-"

// saveAt calls write with a new file beside path, syncs it, and renames it to path. If several processes save to path
// at the same time the last one stays, or with KeepExisting the first.
func saveAt(path string, o SaveOptions, write func(*os.File) (Saved, error)) (Saved, error) {
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
	saved, err := write(f)
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
	if err := wholefile.SyncDir(filepath.Dir(target)); err != nil {
		return Saved{},
			fmt.Errorf(
				"save to %s: the snapshot is there, but its directory could not be synced, and a crash of the machine may bring "+
					"the old one back: %w", path, err)
	}
	return saved, nil
}

// nameNew renames a new file to target. It replaces a snapshot there, unless keep is true, and nothing else.
func nameNew(name, target string, keep bool) error {
	err := replaceable(target)
	if _, there := os.Lstat(target); err == nil && keep && there == nil {
		err = fmt.Errorf("%s has been made meanwhile, and is kept: %w", target, fs.ErrExist)
	}
	if err != nil {
		return err
	}
	return os.Rename(name, target)
}

// targetOf follows symbolic links to the file that is to be made or replaced. It fails if that is anything but a
// snapshot.
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
	return real, replaceable(real)
}

// replaceable returns an error if there is anything at path but a snapshot or an empty file. It may be a store, also
// one that is damaged.
func replaceable(path string) error {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.Mode().IsRegular() && info.Size() == 0 {
		return nil
	}
	is, err := Is(path)
	if err == nil && !is {
		err = fmt.Errorf("it is there and no snapshot, and nothing else is replaced; choose another name: %w", fs.ErrExist)
	}
	return err
}

// createNew makes a file beside the target and locks it, so that other saves do not remove it as debris.
func createNew(target string) (*os.File, error) {
	for {
		name := target + suffixNew + rand.Text()
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return nil, err
		}
		if tryLock(f) && hasName(f, name) {
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
