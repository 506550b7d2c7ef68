package mirror

import (
	"net"
	"path/filepath"
	"runtime"
	"testing"
)

func TestNotify(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Log("there is no systemd")
		return
	}
	t.Setenv("NOTIFY_SOCKET", "")
	newNotifier().ready()
	socket := filepath.Join(t.TempDir(), "n")
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	t.Setenv("NOTIFY_SOCKET", socket)
	n := newNotifier()
	n.ready()
	n.stopping()
	for _, want := range []string{"READY=1", "STOPPING=1"} {
		buf := make([]byte, 64)
		if k, err := c.Read(buf); err != nil || string(buf[:k]) != want {
			t.Errorf("got %q, %v, want %s", buf[:k], err, want)
		}
	}
}
