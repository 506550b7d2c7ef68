package base

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
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

// maxLinks is the maximum number of dangling links to follow, as in Linux.
const maxLinks = 40

// RealPath returns the absolute path of the file that path names, with all symbolic links resolved. The file need not
// exist, but its directory must: for a link to a missing file, RealPath returns the path at which the file would be
// created. It fails if links form a cycle. If a directory is missing, the error wraps fs.ErrNotExist.
//
// The caller uses the resolved path from then on, so that a rename to the file's name does not replace a symbolic link.
func RealPath(path string) (string, error) {
	at := path
	if !filepath.IsAbs(at) {
		wd, err := os.Getwd()
		if err != nil {
			return "", err
		}
		// filepath.Join would clean the path, and so remove a link together with a ".." after it.
		at = wd + string(filepath.Separator) + at
	}
	for range maxLinks {
		real, err := filepath.EvalSymlinks(at)
		if err == nil {
			return real, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("follow the symbolic links of %s: %w", path, err)
		}
		next, isLink, err := step(at)
		if err != nil {
			return "", fmt.Errorf("%s: there is no directory %s: %w", path, filepath.Dir(at), err)
		}
		if !isLink {
			return next, nil
		}
		at = next
	}
	return "", fmt.Errorf("follow the symbolic links of %s: there are more than %d", path, maxLinks)
}

// step makes one step in resolving the path of a missing file: it resolves the file's directory, and follows the last
// element if that is a link.
func step(path string) (next string, isLink bool, err error) {
	dir, base := filepath.Split(path)
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return "", false, err
	}
	next = filepath.Join(dir, base)
	target, err := os.Readlink(next)
	switch {
	case err != nil:
		return next, false, nil //nolint:nilerr // the error says only that next is not a link
	case filepath.IsAbs(target):
		return target, true, nil
	}
	return dir + string(filepath.Separator) + target, true, nil
}

// TrustedOwner reports whether the user with this uid is root or the user of this process.
func TrustedOwner(uid int) bool { return uid == 0 || uid == os.Geteuid() }

// CheckOwner fails if another user may have placed the file at path: if path, or a directory above path, belongs to
// another user and is in a directory in which users other than the directory's owner may create files, such as /tmp.
// Files in other directories may have any owner. CheckOwner also checks the target of a symbolic link. It fails with
// fs.ErrNotExist if nothing exists at path.
func CheckOwner(path string) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	if err := checkUp(path); err != nil {
		return err
	}
	target, err := filepath.EvalSymlinks(path)
	if err != nil || target == path {
		return err
	}
	return checkUp(target)
}

// checkUp checks path and every directory above path, as CheckOwner does.
func checkUp(path string) error {
	for {
		if err := check(path); err != nil {
			return err
		}
		above := filepath.Dir(path)
		if above == path {
			return nil
		}
		path = above
	}
}

func check(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	uid, known := OwnerOf(info)
	if !known || TrustedOwner(uid) {
		return nil
	}
	dir := filepath.Dir(path)
	in, err := os.Stat(dir)
	if err != nil {
		return err
	}
	if in.Mode().Perm()&0o022 == 0 {
		return nil
	}
	return fmt.Errorf("%s belongs to user %d, and in %s others may create files, so it is not trusted: "+
		"remove it, or use another directory", path, uid, dir)
}

// Holder is a process that has a file open.
type Holder struct {
	PID int
	// Name is the name of the program as the kernel reports it.
	Name string
}

func (h Holder) String() string { return fmt.Sprintf("process %d (%s)", h.PID, h.Name) }

// OpenHere reports whether the current process has the file open.
func OpenHere(path string) bool {
	file, err := os.Stat(path)
	return err == nil && hasOpen("/proc/self/fd", file)
}

// HoldersOf returns the other processes that have the file open, for messages. It reads /proc, so it finds nothing on
// systems other than Linux, and no processes of other users unless this user is root.
func HoldersOf(path string) []Holder {
	file, err := os.Stat(path)
	if err != nil {
		return nil
	}
	// Glob fails only for a malformed pattern.
	dirs, _ := filepath.Glob("/proc/[0-9]*/fd")
	var all []Holder
	for _, dir := range dirs {
		process := filepath.Dir(dir)
		pid, err := strconv.Atoi(filepath.Base(process))
		if err != nil || pid == os.Getpid() || !hasOpen(dir, file) {
			continue
		}
		name, _ := os.ReadFile(filepath.Join(process, "comm")) // the name is empty if the process has ended since
		all = append(all, Holder{pid, strings.TrimSpace(string(name))})
	}
	return all
}

func hasOpen(dir string, file os.FileInfo) bool {
	// ReadDir fails if the process has ended or belongs to another user, which counts as no open files.
	fds, _ := os.ReadDir(dir)
	for _, fd := range fds {
		if open, err := os.Stat(filepath.Join(dir, fd.Name())); err == nil && os.SameFile(open, file) {
			return true
		}
	}
	return false
}
