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
	// maxShared is the number of concurrent requests that share a network connection. kube-apiserver allows 100 HTTP/2
	// streams. A stream may close slightly after its request has ended, so the limit is lower.
	maxShared = 98
	// dialWait limits how long the requests of a transport wait until the first request has a network connection. The
	// first request may hang.
	dialWait = 10 * time.Second
)

// sharedTransports is an http.RoundTripper that needs few network connections for many watches over HTTP/2. An
// http.Transport dials for each request that finds no free stream, so many simultaneous requests each dial. In
// sharedTransports each http.Transport has at most maxShared concurrent requests: the first request dials while the
// others wait.
type sharedTransports struct {
	make func() (http.RoundTripper, error)

	mu  sync.Mutex
	all []*sharedTransport // mu guards all
}

type sharedTransport struct {
	http.RoundTripper
	requests int // requests is the number of running requests of this transport; sharedTransports.mu guards it
	// ready is closed when the first request of this transport has a network connection or has failed. sharedTransports.mu
	// guards it.
	ready chan struct{}
}

func (s *sharedTransports) RoundTrip(r *http.Request) (*http.Response, error) {
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
		late := time.NewTimer(dialWait)
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
	resp.Body = &sharedBody{resp.Body, leave}
	return resp, nil
}

// enter counts a new request and returns its transport, which has at most maxShared running requests. first is true if
// the transport has no other running request: the request then dials, and later requests wait until ready is closed.
func (s *sharedTransports) enter() (l *sharedTransport, ready chan struct{}, first bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l = range s.all {
		if l.requests < maxShared {
			break
		}
		l = nil
	}
	if l == nil {
		rt, err := s.make()
		if err != nil {
			return nil, nil, false, err
		}
		l = &sharedTransport{RoundTripper: rt}
		s.all = append(s.all, l)
	}
	if l.requests++; l.requests == 1 {
		l.ready, first = make(chan struct{}), true
	}
	return l, l.ready, first, nil
}

func (s *sharedTransports) leave(l *sharedTransport) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l.requests--
}

// CloseIdleConnections implements the interface that http.Client.CloseIdleConnections looks for.
func (s *sharedTransports) CloseIdleConnections() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.all {
		utilnet.CloseIdleConnectionsFor(l.RoundTripper)
	}
}

// sharedBody is the body of a response. When the body has been read to its end or closed, its request no longer counts
// as running on its transport.
type sharedBody struct {
	io.ReadCloser
	leave func()
}

func (b *sharedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.leave()
	}
	return n, err
}

func (b *sharedBody) Close() error {
	defer b.leave()
	return b.ReadCloser.Close()
}
