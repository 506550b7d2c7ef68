//go:build unix

package base

import (
	"io/fs"
	"syscall"
)

// OwnerOf returns the owner of a file. known is false if the system does not report it.
func OwnerOf(info fs.FileInfo) (uid int, known bool) {
	st, known := info.Sys().(*syscall.Stat_t)
	if !known {
		return 0, false
	}
	return int(st.Uid), true
}
