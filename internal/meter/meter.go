// Package meter counts the bytes that connections to an API server receive.
package meter

import (
	"compress/gzip"
	"context"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"
)

// Received counts received bytes as they are on the network: with headers, TLS and compression. The zero value is ready
// to use.
type Received struct{ bytes atomic.Int64 }

// Bytes returns the number of bytes received so far.
func (r *Received) Bytes() int64 { return r.bytes.Load() }

func (r *Received) add(n int, err error) (int, error) {
	r.bytes.Add(int64(n))
	return n, err
}

// Count returns a copy of config for clients whose received bytes r counts. These clients do not share network
// connections with other clients. If config has its own Transport, nothing is counted, because that Transport does not
// use config.Dial.
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

func (c *conn) Read(p []byte) (int, error) {
	return c.received.add(c.Conn.Read(p))
}

// CountBodies returns a transport that uses base and counts the bytes of the response bodies, compressed if the server
// compresses them. Like http.Transport, it requests compression and decompresses.
func (r *Received) CountBodies(base http.RoundTripper) http.RoundTripper { return &bodies{base, r} }

type bodies struct {
	base     http.RoundTripper
	received *Received
}

func (b *bodies) RoundTrip(req *http.Request) (*http.Response, error) {
	unpacks := req.Header.Get("Accept-Encoding") == "" && req.Header.Get("Range") == "" && req.Method != http.MethodHead
	if unpacks {
		req = req.Clone(req.Context())
		req.Header.Set("Accept-Encoding", "gzip")
	}
	resp, err := b.base.RoundTrip(req)
	if err != nil || resp.Body == nil || resp.StatusCode == http.StatusSwitchingProtocols {
		return resp, err
	}
	resp.Body = &body{resp.Body, b.received}
	if unpacks && resp.Header.Get("Content-Encoding") == "gzip" {
		resp.Body = &unpacked{body: resp.Body}
		resp.Header.Del("Content-Encoding")
		resp.Header.Del("Content-Length")
		resp.ContentLength, resp.Uncompressed = -1, true
	}
	return resp, nil
}

func (b *bodies) CloseIdleConnections() {
	if c, ok := b.base.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// WrappedRoundTripper implements apimachinery's RoundTripperWrapper.
func (b *bodies) WrappedRoundTripper() http.RoundTripper { return b.base }

// body counts the bytes that are read from a response body, before they are decompressed.
type body struct {
	io.ReadCloser
	received *Received
}

func (b *body) Read(p []byte) (int, error) {
	return b.received.add(b.ReadCloser.Read(p))
}

// unpacked decompresses a response body. It reads the gzip header in the first Read, not before: on a watch that read
// would wait for the first event.
type unpacked struct {
	body io.ReadCloser
	zip  *gzip.Reader
	err  error // err is the error in the gzip header, which each Read returns
}

func (u *unpacked) Read(p []byte) (int, error) {
	if u.zip == nil && u.err == nil {
		u.zip, u.err = gzip.NewReader(u.body)
	}
	if u.err != nil {
		return 0, u.err
	}
	return u.zip.Read(p)
}

func (u *unpacked) Close() error { return u.body.Close() }
