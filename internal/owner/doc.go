// Package owner tells whose a file or the process behind a socket is, so that a program does not trust what another
// user has placed. Start with [Check].
//
// A user is trusted if it is root or the user of this process. On systems without owners in the Unix sense every user
// is trusted: their access lists are not in a file's mode. The package keeps nothing.
package owner

import (
	"fmt"
	"os"
	"path/filepath"
)

// Trusted reports whether a user is root or that of this process.
func Trusted(uid int) bool { return uid == 0 || uid == os.Geteuid() }

// Check fails if path, or a directory that it leads through, belongs to another user and lies in a directory in which
// users other than its owner may create files, such as /tmp: that user may have placed it there. Where only the owner
// of the directory may create files, their owner does not matter. A symbolic link is checked, and so is its target.
// Check fails with fs.ErrNotExist if there is nothing at path.
func Check(path string) error {
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

// checkUp checks path and every directory above it.
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
	uid, known := Of(info)
	if !known || Trusted(uid) {
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
