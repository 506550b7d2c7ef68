package base

import (
	"net"
	"syscall"
)

// PeerOwner returns the user of the process at the other end of c, which listens on a Unix socket. known is false if
// the system does not report it.
func PeerOwner(c *net.UnixConn, _ string) (uid int, known bool) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, false
	}
	failed := raw.Control(func(fd uintptr) {
		var cred *syscall.Ucred
		if cred, err = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED); err == nil {
			uid = int(cred.Uid)
		}
	})
	return uid, failed == nil && err == nil
}
