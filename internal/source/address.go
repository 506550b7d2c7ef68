package source

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"

	"github.com/larder-dev/larder/internal/base"
)

// maxSocketPath is the maximum length, in bytes, of a path that is used unchanged as the address of a socket. The
// kernel's limit, with the final zero, is 104 bytes on macOS and the BSDs, and 108 on Linux and Windows.
const maxSocketPath = 100

// SocketPath returns the path of the socket on which the larder sync that holds the store listens. It is the store's
// path with ".sock" appended, or, if that is too long for a socket, ".larder-<hash of the store's name>.sock" in the
// same directory. Symbolic links are resolved first, so that all names of one store lead to one socket.
func SocketPath(storePath string) (string, error) {
	real, err := base.RealPath(storePath)
	if err != nil {
		return "", err
	}
	if p := real + ".sock"; len(p) <= maxSocketPath {
		return p, nil
	}
	sum := sha256.Sum256([]byte(filepath.Base(real)))
	return filepath.Join(filepath.Dir(real), ".larder-"+hex.EncodeToString(sum[:6])+".sock"), nil
}

// Listen listens on the socket of the store, with the mode 0600. It replaces a socket left by a killed larder sync. The
// caller must hold the store's lock, which makes it the owner of the socket.
func Listen(storePath string) (net.Listener, error) {
	path, err := SocketPath(storePath)
	if err != nil {
		return nil, err
	}
	if info, err := os.Lstat(path); err == nil && !isSocket(info) {
		return nil, fmt.Errorf("%s is in the way: it is not a socket; move it elsewhere", path)
	}
	if runtime.GOOS == "windows" {
		return listenAt(path)
	}
	return listenAside(path)
}

// listenAside listens on a socket in a directory that only this user can enter, sets the socket's mode, and renames the
// socket to path. Other users can therefore never connect. The directory has a fixed name. A larder sync that was
// killed may have left it, so it is removed first: the store's lock excludes another living sync.
func listenAside(path string) (net.Listener, error) {
	private := path + ".new"
	if err := os.RemoveAll(private); err != nil {
		return nil, err
	}
	if err := os.Mkdir(private, 0o700); err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(private) }()
	bound := filepath.Join(private, "s")
	short, release, err := shortPath(bound)
	if err != nil {
		return nil, err
	}
	defer release()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: short, Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false)
	if err := os.Chmod(bound, 0o600); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	if err := os.Rename(bound, path); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return &listener{UnixListener: l, path: path}, nil
}

// listenAt listens at path without a private directory. On Windows the access list of the directory protects the
// socket.
func listenAt(path string) (net.Listener, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false)
	return &listener{UnixListener: l, path: path}, nil
}

type listener struct {
	*net.UnixListener
	path string
}

func (l *listener) Close() error {
	err := l.UnixListener.Close()
	if errors.Is(err, net.ErrClosed) {
		return err // an earlier Close has removed the socket's file, and a new socket may have its name
	}
	if rmErr := os.Remove(l.path); rmErr != nil && !errors.Is(rmErr, fs.ErrNotExist) {
		return errors.Join(err, rmErr)
	}
	return err
}

func isSocket(info fs.FileInfo) bool {
	if runtime.GOOS == "windows" { // older Go versions report a socket as irregular
		return info.Mode()&(fs.ModeSocket|fs.ModeIrregular) != 0
	}
	return info.Mode()&fs.ModeSocket != 0
}

// ErrOtherUser says that the process that listens on a store's socket is not trusted: it runs as a user other than
// root, this process's user, and the owner of the store's file. In a shared directory any user can place a socket.
var ErrOtherUser = errors.New("its process is of another user, who does not own the store")

func dial(ctx context.Context, path, storePath string) (net.Conn, error) {
	short, release, err := shortPath(path)
	if err != nil {
		return nil, err
	}
	defer release()
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", short)
	if err != nil {
		return nil, err
	}
	if uid, known := base.PeerOwner(c.(*net.UnixConn), path); known && !base.TrustedOwner(uid) {
		file, err := os.Stat(storePath)
		if of, known := fileOwner(file, err); !known || of != uid {
			return nil, errors.Join(fmt.Errorf("user %d: %w", uid, ErrOtherUser), c.Close())
		}
	}
	return c, nil
}

func fileOwner(info fs.FileInfo, err error) (uid int, known bool) {
	if err != nil {
		return 0, false
	}
	return base.OwnerOf(info)
}

// shortPath returns a path that leads to the same socket as path and is short enough for an address: path, or a path
// through a temporary link to its directory. release removes the link. An open socket does not need the link; only
// listening and connecting do.
func shortPath(path string) (short string, release func(), err error) {
	if len(path) <= maxSocketPath {
		return path, func() {}, nil
	}
	temp, err := os.MkdirTemp("", "larder-")
	if err == nil && len(temp)+len("/d/")+len(filepath.Base(path)) > maxSocketPath {
		_ = os.Remove(temp)
		temp, err = os.MkdirTemp("/tmp", "larder-")
	}
	if err != nil {
		return "", nil, err
	}
	release = func() { _ = os.RemoveAll(temp) }
	link := filepath.Join(temp, "d")
	if err := os.Symlink(filepath.Dir(path), link); err != nil {
		release()
		return "", nil, fmt.Errorf("the path %s is too long for a socket, and it cannot be shortened: %w", path, err)
	}
	return filepath.Join(link, filepath.Base(path)), release, nil
}
