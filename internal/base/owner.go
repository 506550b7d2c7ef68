package base

import (
	"fmt"
	"os"
	"path/filepath"
)

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
