package subject

import (
	"context"
	"net"
	"sync"

	"k8s.io/client-go/rest"

	"github.com/larder-dev/larder/internal/meter"
)

// Network is the way to the server. It counts what is received. It can be held, so that what the server sends piles up there, and
// it can be cut.
type Network struct {
	received meter.Received

	mu    sync.Mutex // guards what follows
	conns map[*conn]struct{}
	held  chan struct{} // closed while reads pass
	cut   chan struct{} // closed while connections can be made
}

// NewNetwork returns one that lets everything pass.
func NewNetwork() *Network {
	passing := make(chan struct{})
	close(passing)
	return &Network{conns: map[*conn]struct{}{}, held: passing, cut: passing}
}

// Received is how many bytes have come so far.
func (n *Network) Received() int64 { return n.received.Bytes() }

// Wrap returns a copy of config whose connections are this network's.
func (n *Network) Wrap(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.Dial = n.dial
	return n.received.Count(config)
}

func (n *Network) dial(ctx context.Context, network, address string) (net.Conn, error) {
	n.mu.Lock()
	open := n.cut
	n.mu.Unlock()
	select {
	case <-open:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	c, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	kept := &conn{Conn: c, network: n, closed: make(chan struct{})}
	n.conns[kept] = struct{}{}
	return kept, nil
}

// Hold makes reads wait. What the server has sent stays with it, and with the kernel.
func (n *Network) Hold() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.held = make(chan struct{})
}

// Release ends Hold.
func (n *Network) Release() {
	n.mu.Lock()
	defer n.mu.Unlock()
	close(n.held)
}

// Cut ends every connection. New ones are not refused but wait for Mend, so that nobody backs off for longer than the server was away.
func (n *Network) Cut() {
	n.mu.Lock()
	n.cut = make(chan struct{})
	var conns []*conn
	for c := range n.conns {
		conns = append(conns, c)
	}
	n.mu.Unlock()
	for _, c := range conns {
		_ = c.Close()
	}
}

// Mend ends Cut.
func (n *Network) Mend() {
	n.mu.Lock()
	defer n.mu.Unlock()
	close(n.cut)
}

type conn struct {
	net.Conn
	network *Network
	once    sync.Once
	closed  chan struct{}
}

// Read implements net.Conn. A read that was waiting for the server when the network was held waits too.
func (c *conn) Read(p []byte) (int, error) {
	k, err := c.Conn.Read(p)
	c.network.mu.Lock()
	passing := c.network.held
	c.network.mu.Unlock()
	select {
	case <-passing:
	case <-c.closed:
	}
	return k, err
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.once.Do(func() {
		close(c.closed)
		c.network.mu.Lock()
		delete(c.network.conns, c)
		c.network.mu.Unlock()
	})
	return c.Conn.Close()
}
