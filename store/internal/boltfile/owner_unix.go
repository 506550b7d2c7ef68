//go:build unix

package boltfile

import (
	"fmt"
	"os"
	"syscall"
)

// KeepOwner gives a file that is to replace another its owner, group and mode. Where nothing differs nothing is called:
// a sandbox may forbid it. A group that cannot be kept gets no access, and neither does the one in its place; an owner
// that cannot be kept is an error.
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

// newOwner is the user and the group that a file needs to be as another; -1 is the one that it has.
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
