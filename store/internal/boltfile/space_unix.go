//go:build unix

package boltfile

import "syscall"

func noSpaceErrors() []syscall.Errno {
	return []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG}
}
