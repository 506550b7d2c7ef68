//go:build unix

package base

import (
	"io/fs"
	"syscall"
)

func OwnerOf(info fs.FileInfo) (uid int, known bool) {
	st, known := info.Sys().(*syscall.Stat_t)
	if !known {
		return 0, false
	}
	return int(st.Uid), true
}
