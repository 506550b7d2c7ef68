package subject

import (
	"context"
	"net"
	"sync"
	"sync/atomic"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/connrotation"

	"github.com/larder-dev/larder/internal/meter"
)

// Network is an informer's connection to the server, and counts the received bytes. Hold blocks the connection, so that
// the server's data stays in buffers, and Cut closes it.
type Network struct {
	received meter.Received
	dialed   atomic.Int64
	dialer   *connrotation.Dialer

	mu   sync.Mutex    // mu guards held
	held chan struct{} // closed when reads may continue; nil while they are not blocked
}

// NewNetwork returns a Network that does not block.
func NewNetwork() *Network {
	n := &Network{}
	n.dialer = connrotation.NewDialer(n.dial)
	return n
}

// Received returns the number of bytes received so far.
func (n *Network) Received() int64 { return n.received.Bytes() }

// Dialed returns the number of connections so far.
func (n *Network) Dialed() int64 { return n.dialed.Load() }

// Wrap returns a copy of config whose connections go through the network.
func (n *Network) Wrap(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.Dial = n.dialer.DialContext
	return n.received.Count(config)
}

// Hold blocks reads and new connections. The server's data stays in its buffers and the kernel's.
func (n *Network) Hold() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.held = make(chan struct{})
}

// Cut closes every connection and blocks new ones until Release. New connections wait instead of being refused, so that
// no client backs off for longer than the cut.
func (n *Network) Cut() {
	n.Hold()
	n.dialer.CloseAll()
}

// Release lets reads and new connections continue after Hold or Cut.
func (n *Network) Release() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.held != nil {
		close(n.held)
		n.held = nil
	}
}

// wait blocks until reads may continue, or until closed is closed.
func (n *Network) wait(closed <-chan struct{}) {
	n.mu.Lock()
	held := n.held
	n.mu.Unlock()
	if held == nil {
		return
	}
	select {
	case <-held:
	case <-closed:
	}
}

func (n *Network) dial(ctx context.Context, network, address string) (net.Conn, error) {
	n.wait(ctx.Done())
	c, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	n.dialed.Add(1)
	return newConn(n, c), nil
}

type conn struct {
	net.Conn
	network *Network
	closed  context.Context
	close   context.CancelFunc
}

func newConn(n *Network, c net.Conn) *conn {
	closed, cancel := context.WithCancel(context.Background())
	return &conn{Conn: c, network: n, closed: closed, close: cancel}
}

// If Network.Hold is called while a Read waits for the server, that Read blocks too.
func (c *conn) Read(p []byte) (int, error) {
	k, err := c.Conn.Read(p)
	c.network.wait(c.closed.Done())
	return k, err
}

func (c *conn) Close() error {
	c.close()
	return c.Conn.Close()
}
