//go:build darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd

package boltfile

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// noFollow makes an open fail if the last element of the path is a symbolic link.
const noFollow = syscall.O_NOFOLLOW

// tryLock locks the file, and returns false if another process has the lock. Later bbolt takes the same kind of lock,
// which succeeds because bbolt uses the same open file.
func tryLock(f *os.File, exclusive bool) (bool, error) {
	how := syscall.LOCK_NB
	if exclusive {
		how |= syscall.LOCK_EX
	} else {
		how |= syscall.LOCK_SH
	}
	for {
		err := syscall.Flock(int(f.Fd()), how)
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return false, nil
		}
		if !errors.Is(err, syscall.EINTR) {
			return err == nil, err
		}
	}
}

func unlock(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_UN) }

// lockMark opens the mark, the file <path>.opening, and locks it; it returns nil if another process holds the mark.
func lockMark(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|noFollow, 0o600)
	if errors.Is(err, syscall.ELOOP) {
		return nil, fmt.Errorf("%w: a symbolic link is there, which may lead to anybody's file; remove it", err)
	}
	if err != nil {
		return nil, err
	}
	ok, err := tryLock(f, true)
	if err == nil && ok && hasName(f, path) {
		return f, nil
	}
	return nil, errors.Join(err, f.Close())
}

func unlockMark(f *os.File, path string) error {
	return errors.Join(os.Remove(path), f.Close())
}
