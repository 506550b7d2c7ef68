package source

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/larder-dev/larder/store"
)

// silent creates the socket of a stopped process (kill -STOP) beside a store: the kernel accepts connections to the
// socket, but the process does not answer.
func silent(t *testing.T, storePath string) string {
	t.Helper()
	socket, err := SocketPath(storePath)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return socket
}

func TestDialOfAStoppedSync(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	silent(t, path)
	_, _, err := dialWithin(t.Context(), path, 50*time.Millisecond)
	if !errors.Is(err, ErrNoAnswer) || !strings.Contains(err.Error(), "no answer in 50ms") {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := dialWithin(ctx, path, time.Hour); !errors.Is(err, context.Canceled) || errors.Is(err, ErrNoAnswer) {
		t.Errorf("interrupted: %v", err)
	}
}

// TestOpenOfAStoppedSync checks that Open names the process that has locked the store's file but does not answer.
func TestOpenOfAStoppedSync(t *testing.T) {
	t.Parallel() // Open waits until the time answerWithin has passed.
	path := filepath.Join(t.TempDir(), "s.db")
	s, err := store.Open(path, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	socket := silent(t, path)
	_, err = Open(t.Context(), path, Options{Wait: -1})
	var held *HeldError
	if !errors.As(err, &held) || held.Socket != socket || !errors.Is(err, ErrNoAnswer) ||
		!errors.Is(err, store.ErrLocked) {
		t.Errorf("got %v", err)
	}
	if _, err := os.Lstat(socket); err != nil {
		t.Errorf("the socket: %v", err)
	}
}
