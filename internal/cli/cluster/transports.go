package cluster

import (
	"context"
	"io"
	"net/http"
	"net/http/httptrace"
	"sync"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
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

// renewal keeps the bearer token of a kubeconfig current. client-go rereads the files that a kubeconfig refers to and
// reruns its credential plugins, but it never rereads the kubeconfig itself. A login program may write a new token into
// the kubeconfig while a sync runs.
type renewal struct {
	// host is the server's host. first is the bearer token that client-go sets on requests, from the first read of the
	// kubeconfig.
	host, first string
	read        func() (*rest.Config, error) // read returns the configuration in the kubeconfig

	mu      sync.Mutex
	token   string // token is the bearer token of the next request; mu guards it
	reading bool   // reading is true while read is running; mu guards it
}

// renewToken changes config so that, once the server has rejected the first bearer token, requests use the token that
// read returns. It does nothing if the token is not in the kubeconfig itself.
func renewToken(config *rest.Config, read func() (*rest.Config, error)) {
	if config.BearerToken == "" || config.BearerTokenFile != "" {
		return
	}
	r := &renewal{host: config.Host, first: config.BearerToken, token: config.BearerToken, read: read}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &renewing{next, r} })
}

// kubeconfigReader returns a function that rereads the kubeconfig that the flags name. The function uses the context
// that was current at the first read (or --context), even if the file's current-context has changed since.
func kubeconfigReader(flags *Flags, currentContext string) func() (*rest.Config, error) {
	if name := flags.Overrides.CurrentContext; name != "" {
		currentContext = name
	}
	return func() (*rest.Config, error) {
		access := flags.loader().ConfigAccess()
		raw, err := access.GetStartingConfig()
		if err != nil {
			return nil, err
		}
		return clientcmd.NewNonInteractiveClientConfig(*raw, currentContext, &flags.Overrides, access).ClientConfig()
	}
}

func (r *renewal) current() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.token
}

// refused rereads the kubeconfig after the server has rejected a bearer token. The token does not change if the
// kubeconfig is unreadable, perhaps because a program is writing it, or names another server. The next rejection then
// triggers another read.
func (r *renewal) refused(token string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if token != r.token || r.reading {
		return // another request has already replaced the token, or is reading the kubeconfig
	}
	r.reading = true
	r.mu.Unlock() // no mutex is held during the read, because the file's disk may hang
	config, err := r.read()
	r.mu.Lock()
	r.reading = false
	if err == nil && config.Host == r.host && config.BearerToken != "" {
		r.token = config.BearerToken
	}
}

type renewing struct {
	next http.RoundTripper
	*renewal
}

// RoundTrip implements http.RoundTripper. Requests with other credentials are not changed.
func (t *renewing) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Header.Get("Authorization") != "Bearer "+t.first {
		return t.next.RoundTrip(req)
	}
	token := t.current()
	req = req.Clone(req.Context())
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := t.next.RoundTrip(req)
	if err == nil && resp.StatusCode == http.StatusUnauthorized {
		t.refused(token)
	}
	return resp, err
}

// WrappedRoundTripper returns the wrapped transport. client-go looks for this method.
func (t *renewing) WrappedRoundTripper() http.RoundTripper { return t.next }
