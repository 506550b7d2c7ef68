package source

import (
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/larder-dev/larder/store"
)

const (
	nobody   = 65534
	somebody = 65533
)

// listenAs listens on a socket at path as the user uid, and answers like a larder sync.
func listenAs(t *testing.T, uid int, path string) {
	t.Helper()
	type result struct {
		l   net.Listener
		err error
	}
	made := make(chan result)
	go func() {
		runtime.LockOSThread() // the thread is never unlocked, so it ends with the goroutine
		if _, _, no := syscall.RawSyscall(syscall.SYS_SETRESUID, uintptr(uid), uintptr(uid), uintptr(uid)); no != 0 {
			made <- result{nil, no}
			return
		}
		l, err := net.Listen("unix", path)
		made <- result{l, err}
	}()
	r := <-made
	if r.err != nil {
		t.Fatal(r.err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"pid":1}`))
	})}
	done := make(chan error)
	go func() { done <- server.Serve(r.l) }()
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
}

// TestSocketOfAnotherUser checks which processes behind a store's socket root trusts: processes of the owner of the
// store's file, such as a service's user, but of no other user (issue 37).
func TestSocketOfAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can listen as another user")
	}
	for name, tt := range map[string]struct {
		listens, owns int
		trusted       bool
	}{
		"the owner": {nobody, nobody, true}, "another user": {nobody, 0, false}, "a third user": {nobody, somebody, false},
		"root": {0, nobody, true}, "no store": {nobody, -1, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir, err := os.MkdirTemp("/tmp", "larder-socket-*") // other users cannot reach t.TempDir
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = os.RemoveAll(dir) }()
			path := filepath.Join(dir, "s.db")
			err = os.Chmod(dir, 0o777|os.ModeSticky)
			if err == nil && tt.owns >= 0 {
				if err = os.WriteFile(path, []byte("a store"), 0o600); err == nil {
					err = os.Chown(path, tt.owns, tt.owns)
				}
			}
			if err != nil {
				t.Fatal(err)
			}
			listenAs(t, tt.listens, mustSocketPath(t, path))
			client, _, err := Dial(t.Context(), path)
			if client != nil {
				_ = client.Close()
			}
			if tt.trusted && err != nil || !tt.trusted && !errors.Is(err, ErrOtherUser) {
				t.Errorf("%v, want trusted %v", err, tt.trusted)
			}
		})
	}
}

func TestOpenBesideASocketOfAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can listen as another user")
	}
	dir, err := os.MkdirTemp("/tmp", "larder-socket-*")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path := filepath.Join(dir, "s.db")
	st, err := store.Open(path, store.Options{})
	if err == nil {
		err = os.Chmod(dir, 0o777)
	}
	if err != nil {
		t.Fatal(err)
	}
	listenAs(t, nobody, mustSocketPath(t, path))
	_, err = Open(t.Context(), path, Options{Wait: -1})
	if held := new(HeldError); !errors.As(err, &held) || !errors.Is(err, ErrOtherUser) ||
		!strings.Contains(err.Error(), "user 65534") {
		t.Errorf("while it is held: %v", err)
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	src, err := Open(t.Context(), path, Options{Wait: -1})
	if err != nil {
		t.Fatal(err)
	}
	if _, isFile := src.(*File); !isFile {
		t.Errorf("it is read from a %T", src)
	}
	if err := src.Close(); err != nil {
		t.Fatal(err)
	}
}
