package cluster

import (
	"context"
	"io"
	"net/http"
	"net/http/httptrace"
	"sync"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
)

const (
	// laneWidth is how many requests share a network connection. kube-apiserver allows a hundred streams, and a stream
	// may end a moment after its request has left.
	laneWidth = 98
	// laneWait is how long requests wait to share the connection of the first one, which may hang.
	laneWait = 10 * time.Second
)

// lanes is a transport that needs few network connections for many watches over HTTP/2. A http.Transport makes a
// connection for each request that finds none with a free stream, so that many that begin together each make one. Here
// a lane is a transport with at most laneWidth requests, of which the first makes the connection while others wait.
type lanes struct {
	make func() (http.RoundTripper, error)

	mu  sync.Mutex
	all []*lane // guarded by mu
}

type lane struct {
	http.RoundTripper
	requests int           // guarded by lanes.mu
	ready    chan struct{} // closed once the first of the requests has a connection, or has failed; guarded by lanes.mu
}

// RoundTrip implements http.RoundTripper.
func (s *lanes) RoundTrip(r *http.Request) (*http.Response, error) {
	l, ready, first, err := s.enter()
	if err != nil {
		return nil, err
	}
	leave := sync.OnceFunc(func() { s.leave(l) })
	if first {
		connected := sync.OnceFunc(func() { close(ready) })
		defer connected()
		r = r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{
			GotConn: func(httptrace.GotConnInfo) { connected() },
		}))
	}
	if !first {
		late := time.NewTimer(laneWait)
		defer late.Stop()
		select {
		case <-ready:
		case <-late.C:
		case <-r.Context().Done():
			leave()
			return nil, context.Cause(r.Context())
		}
	}
	resp, err := l.RoundTripper.RoundTrip(r)
	if err != nil || resp.Body == nil {
		leave()
		return resp, err
	}
	resp.Body = &laneBody{resp.Body, leave}
	return resp, nil
}

// enter returns a lane with room for another request. first is true for the one that makes the connection.
func (s *lanes) enter() (l *lane, ready chan struct{}, first bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l = range s.all {
		if l.requests < laneWidth {
			break
		}
		l = nil
	}
	if l == nil {
		rt, err := s.make()
		if err != nil {
			return nil, nil, false, err
		}
		l = &lane{RoundTripper: rt}
		s.all = append(s.all, l)
	}
	if l.requests++; l.requests == 1 {
		l.ready, first = make(chan struct{}), true
	}
	return l, l.ready, first, nil
}

func (s *lanes) leave(l *lane) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l.requests--
}

// CloseIdleConnections is for http.Client.
func (s *lanes) CloseIdleConnections() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.all {
		utilnet.CloseIdleConnectionsFor(l.RoundTripper)
	}
}

// laneBody is the body of an answer. Its request leaves the lane when it has been read or closed.
type laneBody struct {
	io.ReadCloser
	leave func()
}

// Read implements io.Reader.
func (b *laneBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.leave()
	}
	return n, err
}

// Close implements io.Closer.
func (b *laneBody) Close() error {
	defer b.leave()
	return b.ReadCloser.Close()
}
