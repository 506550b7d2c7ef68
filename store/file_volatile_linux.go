package store

import (
	"os"

	"golang.org/x/sys/unix"
)

// volatileFile returns an empty file that is in memory only.
func volatileFile() (*os.File, error) {
	const name = "larder"
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	return os.NewFile(uintptr(fd), name), nil
}
