package source

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func mustSocketPath(t *testing.T, store string) string {
	t.Helper()
	p, err := SocketPath(store)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestSocketPathFollowsLinks(t *testing.T) {
	dir := t.TempDir()
	file, link := filepath.Join(dir, "s"), filepath.Join(dir, "l")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	if a, b := mustSocketPath(t, file), mustSocketPath(t, link); a != b {
		t.Errorf("%s and %s", a, b)
	}
	t.Chdir(dir)
	if a, b := mustSocketPath(t, file), mustSocketPath(t, "s"); a != b {
		t.Errorf("%s and %s", a, b)
	}
	if _, err := SocketPath(filepath.Join(dir, "none", "s")); err == nil {
		t.Error("no error for a directory that does not exist")
	}
}

func TestLongPaths(t *testing.T) {
	deep := filepath.Join(t.TempDir(), strings.Repeat("d", 120), strings.Repeat("e", 120))
	if err := os.MkdirAll(deep, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, path := range map[string]string{
		"directory": filepath.Join(deep, "s"),
		"name":      filepath.Join(t.TempDir(), strings.Repeat("n", 200)),
		"both":      filepath.Join(deep, strings.Repeat("n", 200)),
	} {
		t.Run(name, func(t *testing.T) {
			l, err := Listen(path)
			if err != nil {
				t.Fatal(err)
			}
			server := NewServer(&fakeSource{}, me)
			server.Start(l)
			socket := mustSocketPath(t, path)
			if filepath.Dir(socket) != filepath.Dir(path) &&
				filepath.Base(filepath.Dir(socket)) != filepath.Base(filepath.Dir(path)) {
				t.Errorf("%s is not beside %s", socket, path)
			}
			client, _, err := Dial(context.Background(), path)
			if err != nil {
				t.Fatal(err)
			}
			_ = client.Close()
			if err := server.Close(); err != nil {
				t.Error(err)
			}
			onlyRemains(t, filepath.Dir(path))
		})
	}
}

func TestListenModeAndLeftovers(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "s")
	l, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Lstat(mustSocketPath(t, path))
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 || info.Mode()&os.ModeSocket == 0 {
		t.Errorf("mode %s", info.Mode())
	}
	onlyRemains(t, dir, "s.sock")
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	onlyRemains(t, dir)
}

func TestListenTakesOverAStaleSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	stale, err := net.ListenUnix("unix", &net.UnixAddr{Name: mustSocketPath(t, path), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	stale.SetUnlinkOnClose(false)
	_ = stale.Close()
	if _, _, err := Dial(context.Background(), path); err == nil {
		t.Fatal("somebody answers on the stale socket")
	}
	l, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	server := NewServer(&fakeSource{}, me)
	server.Start(l)
	defer server.Close()
	client, _, err := Dial(context.Background(), path)
	if err != nil {
		t.Fatal(err)
	}
	_ = client.Close()
}

func TestListenAfterAKill(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "s")
	left := mustSocketPath(t, path) + ".new"
	if err := os.Mkdir(left, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(left, "s"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("%v is left, %v", entries, err)
	}
}

// TestCloseTwice checks that a second Close does not remove the socket of the larder sync that listens next.
func TestCloseTwice(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	first, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	_ = first.Close()
	second, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	_ = first.Close()
	if _, err := os.Lstat(mustSocketPath(t, path)); err != nil {
		t.Error(err)
	}
}

func TestListenLeavesOtherFilesAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	if err := os.WriteFile(path+".sock", []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if l, err := Listen(path); err == nil {
		_ = l.Close()
		t.Fatal("a file that is not a socket was taken")
	}
	if data, err := os.ReadFile(path + ".sock"); err != nil || string(data) != "mine" {
		t.Errorf("%q, %v", data, err)
	}
}

func onlyRemains(t *testing.T, dir string, names ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if strings.Join(got, " ") != strings.Join(names, " ") {
		t.Errorf("%s holds %v, want %v", dir, got, names)
	}
}
