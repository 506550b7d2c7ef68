//go:build darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd

package snapshot

import (
	"errors"
	"os"
	"syscall"
)

// isFree locks a file that is being made until it is closed, and says whether nobody else had it locked. On a file
// system without locks nobody has.
func isFree(f *os.File) bool {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EINTR) {
			return !errors.Is(err, syscall.EWOULDBLOCK)
		}
	}
}
