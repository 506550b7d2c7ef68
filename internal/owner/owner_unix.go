//go:build unix

package owner

import (
	"io/fs"
	"syscall"
)

// Of returns the owner of a file. known is false if the system does not report it.
func Of(info fs.FileInfo) (uid int, known bool) {
	st, known := info.Sys().(*syscall.Stat_t)
	if !known {
		return 0, false
	}
	return int(st.Uid), true
}
