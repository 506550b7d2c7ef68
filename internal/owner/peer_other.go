//go:build !linux

package owner

import (
	"net"
	"os"
)

// Peer returns the user of the process that listens on the Unix socket at path. This system does not report it, so it
// returns the owner of the socket's file. known is false if that is not reported either.
func Peer(_ *net.UnixConn, path string) (uid int, known bool) {
	info, err := os.Lstat(path)
	if err != nil {
		return 0, false
	}
	return Of(info)
}
