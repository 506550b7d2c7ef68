package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"syscall"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// Remote is a cluster that the demo cannot stop: Stop refuses its own connections, and after Start its
// transport answers the first watch with the 410 that a restarted API server gives.
type Remote struct {
	config *rest.Config

	mu       sync.Mutex // guards what follows
	down     bool
	expire   bool
	conns    map[net.Conn]struct{}
	requests map[string]*Requests
}

var _ Cluster = (*Remote)(nil)

// NewRemote returns the cluster of a kubeconfig. It does not contact it.
func NewRemote(config *rest.Config) *Remote {
	return &Remote{config: config, conns: map[net.Conn]struct{}{}, requests: map[string]*Requests{}}
}

// Label implements Cluster.
func (r *Remote) Label() string { return "your cluster, " + r.config.Host }

// Notes implements Cluster.
func (r *Remote) Notes() []string {
	return []string{
		"The API server is not touched: \"stopped\" means that the demo's own dialer refuses, and the 410 after",
		"\"its restart\" is given by the demo's own transport. Everything else is the server's.",
		"Requests are counted by the clients' transport, bytes by their dialer.",
	}
}

// Config implements Cluster.
func (r *Remote) Config(userAgent string) *rest.Config {
	config := rest.CopyConfig(r.config)
	config.UserAgent = userAgent
	config.QPS = -1
	dial := config.Dial
	if dial == nil {
		dial = (&net.Dialer{}).DialContext
	}
	config.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		if r.isDown() {
			return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED}
		}
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return r.keep(conn)
	}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return &remoteTransport{remote: r, userAgent: userAgent, next: next}
	})
	return config
}

func (r *Remote) isDown() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.down
}

// keep remembers a connection until it is closed, so that Stop can cut it.
func (r *Remote) keep(conn net.Conn) (net.Conn, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.down {
		return nil, errors.Join(syscall.ECONNREFUSED, conn.Close())
	}
	kept := &remoteConn{Conn: conn, remote: r}
	r.conns[kept] = struct{}{}
	return kept, nil
}

type remoteConn struct {
	net.Conn
	remote *Remote
}

func (c *remoteConn) Close() error {
	c.remote.mu.Lock()
	delete(c.remote.conns, c)
	c.remote.mu.Unlock()
	return c.Conn.Close()
}

// Stop implements Cluster.
func (r *Remote) Stop(context.Context) error {
	r.mu.Lock()
	r.down = true
	var conns []net.Conn
	for conn := range r.conns {
		conns = append(conns, conn)
	}
	r.mu.Unlock()
	for _, conn := range conns {
		_ = conn.Close()
	}
	return nil
}

// Start implements Cluster.
func (r *Remote) Start(context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.down, r.expire = false, true
	return nil
}

// Requests implements Cluster.
func (r *Remote) Requests(_ context.Context, userAgent string) (Requests, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if counted := r.requests[userAgent]; counted != nil {
		return *counted, nil
	}
	return Requests{}, nil
}

// remoteTransport counts requests for pods, and answers one watch with 410.
type remoteTransport struct {
	remote    *Remote
	userAgent string
	next      http.RoundTripper
}

func (t *remoteTransport) RoundTrip(q *http.Request) (*http.Response, error) {
	query := q.URL.Query()
	if q.Method != http.MethodGet || !strings.HasSuffix(q.URL.Path, "/pods") {
		return t.next.RoundTrip(q)
	}
	response, err := t.next.RoundTrip(q)
	if err != nil || !t.count(query) {
		return response, err
	}
	_ = response.Body.Close()
	return expired(q)
}

// count counts a request that the server has answered, and reports whether it is the one to be answered with 410.
func (t *remoteTransport) count(query url.Values) bool {
	verb := "list"
	if watching := query.Get("watch"); watching == "true" || watching == "1" {
		verb = "watch"
	}
	r := t.remote
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.requests[t.userAgent] == nil {
		r.requests[t.userAgent] = &Requests{}
	}
	before := r.requests[t.userAgent].Watches
	r.requests[t.userAgent].Count(verb, query)
	if !r.expire || r.requests[t.userAgent].Watches == before {
		return false
	}
	r.expire = false
	return true
}

// expired is the answer of an API server that has lost its watch history.
func expired(q *http.Request) (*http.Response, error) {
	body, err := json.Marshal(metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure, Code: http.StatusGone, Reason: metav1.StatusReasonExpired,
		Message: "too old resource version (answered by the demo)",
	})
	if err != nil {
		return nil, err
	}
	return &http.Response{
		Status: "410 Gone", StatusCode: http.StatusGone, Proto: q.Proto, ProtoMajor: q.ProtoMajor, ProtoMinor: q.ProtoMinor,
		Header:        http.Header{"Content-Type": {"application/json"}},
		Body:          io.NopCloser(bytes.NewReader(body)),
		ContentLength: int64(len(body)), Request: q,
	}, nil
}
