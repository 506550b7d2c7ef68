//go:build !linux

package owner

import (
	"net"
	"os"
)

// Peer returns the user of the process that listens on the socket at path, to which c is connected. Here it is the
// owner of the socket's file. known is false if the system does not report it.
func Peer(_ *net.UnixConn, path string) (uid int, known bool) {
	info, err := os.Lstat(path)
	if err != nil {
		return 0, false
	}
	return Of(info)
}
