//go:build !unix

package boltfile

import "syscall"

// noSpaceErrors returns, besides ENOSPC, the Windows errors ERROR_HANDLE_DISK_FULL, ERROR_DISK_FULL and
// ERROR_DISK_QUOTA_EXCEEDED.
func noSpaceErrors() []syscall.Errno {
	return []syscall.Errno{syscall.ENOSPC, 39, 112, 1295}
}
