package fakeapi

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"k8s.io/client-go/rest"
)

const (
	defaultStartRV = 1000
	defaultHistory = 200_000
)

// Options are the options of New. The zero value works.
type Options struct {
	// Resources are custom resources to serve besides pods, configmaps, secrets, nodes, namespaces and deployments. They
	// are served in JSON only.
	Resources []Resource
	// StartRV is the resourceVersion of the first write. Default 1000. The first writes create the namespaces default
	// and kube-system.
	StartRV uint64
	// History is the number of events of each resource that are kept for watches. Default 200,000.
	History int
	// Sharding enables shard selectors (kube-apiserver's feature gate ShardedListAndWatch). Without Sharding they are
	// ignored, as in kube-apiserver by default.
	Sharding bool
}

// Server is an API server of objects in memory. Start serves it over HTTP.
type Server struct {
	*storage
	requestLog
	faults
	openapi
	availability
	release
	resources []*kind
	sharding  bool

	// Only Start and Stop change the fields below.
	port     int
	http     *http.Server
	serving  sync.WaitGroup
	conns    *connections
	stopping chan struct{}
}

// New returns a server that does not listen yet.
func New(o Options) *Server {
	if o.StartRV == 0 {
		o.StartRV = defaultStartRV
	}
	if o.History <= 0 {
		o.History = defaultHistory
	}
	resources := append(builtinKinds(), customKinds(o.Resources)...)
	return &Server{
		storage: newStorage(resources, o.StartRV, o.History), resources: resources, sharding: o.Sharding,
	}
}

// Ports are below the range that operating systems use for outgoing connections. So while the server is stopped, its
// port is unlikely to be taken.
const (
	lowestPort  = 20_000
	highestPort = 32_000
	portTries   = 50

	againTries = 300
	againPause = 100 * time.Millisecond
)

// Start listens on a loopback port, after Stop on the previous port, and returns when requests are served.
func (s *Server) Start() error {
	if s.http != nil {
		return errors.New("the embedded API server runs already")
	}
	listener, err := s.listen()
	if err != nil {
		return fmt.Errorf("the embedded API server cannot listen: %w", err)
	}
	s.conns = newConnections()
	s.stopping = make(chan struct{})
	s.http = &http.Server{
		Handler:           s.handler(s.stopping, s.conns),
		ReadHeaderTimeout: time.Minute,
		ConnState:         s.conns.track,
		ConnContext:       withConn,
	}
	server := s.http
	s.serving.Go(func() { _ = server.Serve(countedListener{listener}) })
	return nil
}

func (s *Server) listen() (*net.TCPListener, error) {
	if s.port != 0 {
		return listenAgain(s.port)
	}
	for range portTries {
		port := lowestPort + rand.IntN(highestPort-lowestPort)
		if listener, err := listenOn(port); err == nil {
			s.port = port
			return listener, nil
		}
	}
	listener, err := listenOn(0)
	if err == nil {
		s.port = listener.Addr().(*net.TCPAddr).Port
	}
	return listener, err
}

// listenAgain listens on the port that the server had before Stop, and retries if another process has taken that port:
// most likely another embedded server has taken it, which runs only briefly.
func listenAgain(port int) (listener *net.TCPListener, err error) {
	for range againTries {
		if listener, err = listenOn(port); !errors.Is(err, syscall.EADDRINUSE) {
			break
		}
		time.Sleep(againPause)
	}
	return listener, err
}

func listenOn(port int) (*net.TCPListener, error) {
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return nil, err
	}
	return listener.(*net.TCPListener), nil
}

// Stop closes the listener and every connection, and waits for all goroutines. The objects are kept.
func (s *Server) Stop() {
	if s.http == nil {
		return
	}
	close(s.stopping)
	_ = s.http.Close()
	s.serving.Wait()
	s.conns.wg.Wait()
	s.http = nil
}

// Restart stops the server, drops the watch history (older resourceVersions get 410), and starts it again.
func (s *Server) Restart() error {
	s.Stop()
	s.Compact()
	return s.Start()
}

// Config returns a rest.Config for the server, without client-side throttling. Call it after the first Start.
func (s *Server) Config() *rest.Config {
	return &rest.Config{Host: fmt.Sprintf("http://127.0.0.1:%d", s.port), QPS: -1}
}

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
