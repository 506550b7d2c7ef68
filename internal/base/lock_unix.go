//go:build darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd

package base

import (
	"errors"
	"os"
	"syscall"
)

// tryLock locks an unfinished file until the file is closed. It returns false if another process holds the lock, and
// true on file systems without locks.
func tryLock(f *os.File) bool {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EINTR) {
			return !errors.Is(err, syscall.EWOULDBLOCK)
		}
	}
}
