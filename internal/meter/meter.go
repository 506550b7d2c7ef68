// Package meter counts what connections to an API server receive.
package meter

import (
	"context"
	"net"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"
)

// Received is a number of bytes: what the network carries, with headers, TLS and compression as they are. The zero
// value is ready to use.
type Received struct{ bytes atomic.Int64 }

// Bytes returns the number.
func (r *Received) Bytes() int64 { return r.bytes.Load() }

// Count returns a copy of config whose connections are counted. They are its own: no other client shares them. A config
// with a Transport of its own does not dial, so nothing is counted.
func (r *Received) Count(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	dial := config.Dial
	if dial == nil {
		dial = (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext
	}
	config.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &conn{Conn: c, received: r}, nil
	}
	return config
}

type conn struct {
	net.Conn
	received *Received
}

// Read implements net.Conn.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.received.bytes.Add(int64(n))
	return n, err
}
