//go:build unix

package boltfile

import (
	"fmt"
	"os"
	"syscall"
)

// KeepOwner gives fresh the owner, group and mode of old, which fresh will replace. It makes no system call for equal
// values, because a sandbox may forbid the call. If the group cannot be set, KeepOwner removes the group access from
// fresh. If the owner cannot be set, it fails.
func KeepOwner(old, fresh *os.File) error {
	was, err := old.Stat()
	if err != nil {
		return err
	}
	is, err := fresh.Stat()
	if err != nil {
		return err
	}
	mode := was.Mode().Perm()
	uid, gid := newOwner(was, is)
	if uid != -1 || gid != -1 {
		switch err := fresh.Chown(uid, gid); {
		case err != nil && uid != -1:
			return fmt.Errorf("the new file cannot be given to the owner of the old one: %w", err)
		case err != nil:
			mode &^= 0o070
		}
	}
	if mode == is.Mode().Perm() {
		return nil
	}
	if err := fresh.Chmod(mode); err != nil {
		return fmt.Errorf("the new file cannot be given the mode of the old one: %w", err)
	}
	return nil
}

// newOwner returns the user and group to set on the new file is, so that they equal those of the replaced file was. An
// id is -1 if it is equal already.
func newOwner(was, is os.FileInfo) (uid, gid int) {
	uid, gid = -1, -1
	from, ok := was.Sys().(*syscall.Stat_t)
	to, toOK := is.Sys().(*syscall.Stat_t)
	if !ok || !toOK {
		return uid, gid
	}
	if from.Uid != to.Uid {
		uid = int(from.Uid)
	}
	if from.Gid != to.Gid {
		gid = int(from.Gid)
	}
	return uid, gid
}
