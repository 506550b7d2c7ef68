//go:build !linux

package base

import (
	"net"
	"os"
)

// PeerOwner returns the owner of the socket's file at path, because this system does not report the user of the process
// that listens on it. known is false if the owner is not reported either.
func PeerOwner(_ *net.UnixConn, path string) (uid int, known bool) {
	info, err := os.Lstat(path)
	if err != nil {
		return 0, false
	}
	return OwnerOf(info)
}
