package fakeapi

import (
	"context"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
)

type connections struct {
	mu   sync.Mutex
	open map[net.Conn]struct{}
	// wg counts the connections until net/http has closed them.
	wg sync.WaitGroup
}

func newConnections() *connections { return &connections{open: map[net.Conn]struct{}{}} }

// track is the http.Server's ConnState.
func (c *connections) track(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch state {
	case http.StateNew:
		c.open[conn] = struct{}{}
		c.wg.Add(1)
	case http.StateClosed:
		c.doneLocked(conn)
	}
}

// hijacked must be called when a handler no longer needs a connection that it has hijacked, because net/http does not
// report later states of that connection.
func (c *connections) hijacked(conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.doneLocked(conn)
}

func (c *connections) doneLocked(conn net.Conn) {
	if _, known := c.open[conn]; known {
		delete(c.open, conn)
		c.wg.Done()
	}
}

// countedConn counts the bytes sent, for the resource of the current request.
type countedConn struct {
	*net.TCPConn
	counter atomic.Pointer[atomic.Int64]
}

func (c *countedConn) Write(p []byte) (int, error) {
	n, err := c.TCPConn.Write(p)
	if counter := c.counter.Load(); counter != nil {
		counter.Add(int64(n))
	}
	return n, err
}

func (c *countedConn) reset() {
	_ = c.SetLinger(0)
	_ = c.Close()
}

type countedListener struct{ *net.TCPListener }

func (l countedListener) Accept() (net.Conn, error) {
	conn, err := l.AcceptTCP()
	if err != nil {
		return nil, err
	}
	return &countedConn{TCPConn: conn}, nil
}

type connKey struct{}

func withConn(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, conn)
}

func connOf(r *http.Request) *countedConn {
	conn, _ := r.Context().Value(connKey{}).(*countedConn)
	return conn
}
