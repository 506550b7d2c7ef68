//go:build unix

package store

import "syscall"

func noSpaceErrors() []syscall.Errno {
	return []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG}
}
