package subject

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// reading starts a goroutine that reads once from one end of a pipe through the network. far is the other end.
func reading(t *testing.T, n *Network) (far net.Conn, near net.Conn, read *atomic.Int64) {
	t.Helper()
	far, end := net.Pipe()
	near = n.dialer.Track(newConn(n, end))
	t.Cleanup(func() { _ = errors.Join(far.Close(), near.Close()) })
	read = &atomic.Int64{}
	go func() {
		k, _ := near.Read(make([]byte, 8))
		read.Add(int64(k))
	}()
	return far, near, read
}

func TestHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := NewNetwork()
		far, _, read := reading(t, n)
		synctest.Wait() // waits until the goroutine's read waits for the server
		n.Hold()
		if _, err := far.Write([]byte("1234")); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := read.Load(); got != 0 {
			t.Errorf("%d bytes passed while the network was held", got)
		}
		n.Release()
		synctest.Wait()
		if got := read.Load(); got != 4 {
			t.Errorf("%d bytes after Release, want 4", got)
		}
	})
}

func TestCloseWhileHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := NewNetwork()
		far, near, read := reading(t, n)
		n.Hold()
		if _, err := far.Write([]byte("1234")); err != nil {
			t.Fatal(err)
		}
		if err := near.Close(); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := read.Load(); got != 4 {
			t.Errorf("%d bytes, want the 4 that had come", got)
		}
	})
}

func TestCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := NewNetwork()
		far, _, _ := reading(t, n)
		n.Cut()
		if _, err := far.Write([]byte("1")); err == nil {
			t.Error("the connection is still open")
		}
		ctx, cancel := context.WithCancel(t.Context())
		dialed := make(chan error, 1)
		go func() {
			_, err := n.dial(ctx, "tcp", "127.0.0.1:1")
			dialed <- err
		}()
		synctest.Wait()
		select {
		case err := <-dialed:
			t.Errorf("a connection was tried while the network was cut: %v", err)
		default:
		}
		cancel()
		if err := <-dialed; !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
		n.Release()
	})
}
