package listener

import (
	"container/list"
	"crypto/tls"
	"log"
	"net"
	"net/http"
	"strings"
	"sync"

	"github.com/go-logr/logr"

	"github.com/larder-dev/larder/serve/access"
)

// Server is an http.Server that bounds its connections. Shutdown lets requests end, watches included; Close does not.
type Server struct {
	*http.Server
	connections connections
}

// NewServer returns a server that bounds time and size of headers, and connections. h is a handler of access.NewHandler
// with the same limits. config is that of Certificates.Config; call ServeTLS with "" for both files. NewServer starts
// nothing. Failed handshakes are logged at the verbosity 2.
func NewServer(h http.Handler, config *tls.Config, l access.Limits, logger logr.Logger) *Server {
	l = l.WithDefaults()
	s := &Server{connections: connections{limit: l.Connections, places: map[net.Conn]*list.Element{}}}
	s.Server = &http.Server{
		Handler: h, TLSConfig: config, ReadHeaderTimeout: l.HeaderTime, IdleTimeout: l.IdleTime, MaxHeaderBytes: l.Header,
		Protocols: new(http.Protocols),
		ConnState: s.connections.state,
		ErrorLog:  log.New(serverLog{logger}, "", 0),
	}
	s.Protocols.SetHTTP1(true) // an event costs half of what it does over HTTP/2
	return s
}

// Close closes the listener and all connections. Unlike that of http.Server it waits for no client: that one takes five
// seconds to close each TLS connection whose client does not read. Like that one it does not wait for handlers.
func (s *Server) Close() error {
	s.connections.close()
	return s.Server.Close()
}

// serverLog logs what net/http says: panics of handlers as errors, and what clients do wrong only if asked for.
type serverLog struct{ to logr.Logger }

// Write implements io.Writer.
func (l serverLog) Write(p []byte) (int, error) {
	text := strings.TrimSpace(string(p))
	if strings.HasPrefix(text, "http: panic serving") {
		l.to.Error(nil, "A handler panicked", "panic", text)
	} else {
		l.to.V(2).Info("Serving", "problem", text)
	}
	return len(p), nil
}

// maxWaiting is how many connections may be without a request.
const maxWaiting = 1000

// connections bounds how many are open.
type connections struct {
	limit int

	mu     sync.Mutex
	closed bool
	places map[net.Conn]*list.Element // of all that are open; nil while a request is under way
	fresh  list.List                  // those without a request yet, oldest first
	idle   list.List                  // those between requests, the longest idle first
}

// state is an http.Server's ConnState. It is told of new connections before they are read, one at a time.
func (c *connections) state(conn net.Conn, state http.ConnState) {
	if surplus := c.note(conn, state); surplus != nil {
		closeNow(surplus)
	}
}

// note notes the state of a connection and returns one that has to be closed.
func (c *connections) note(conn net.Conn, state http.ConnState) (surplus net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at, open := c.places[conn]
	if !open && state != http.StateNew {
		return nil // it was surplus
	}
	if at != nil {
		c.fresh.Remove(at) // passes over what is in the other list
		c.idle.Remove(at)
	}
	switch state {
	case http.StateNew:
		if c.closed {
			return conn
		}
		surplus = c.surplus(conn)
		c.places[conn] = c.fresh.PushBack(conn)
	case http.StateIdle:
		surplus = c.surplus(conn)
		c.places[conn] = c.idle.PushBack(conn)
	case http.StateActive:
		c.places[conn] = nil
	case http.StateClosed, http.StateHijacked:
		delete(c.places, conn)
	}
	if at := c.places[surplus]; at != nil {
		c.fresh.Remove(at)
		c.idle.Remove(at)
	}
	delete(c.places, surplus)
	return surplus
}

// surplus returns the connection that has to make room for another one that waits for a request; nil if there is room.
func (c *connections) surplus(another net.Conn) net.Conn {
	if _, open := c.places[another]; (open || len(c.places) < c.limit) && c.fresh.Len()+c.idle.Len() < maxWaiting {
		return nil
	}
	for _, l := range []*list.List{&c.fresh, &c.idle} {
		if at := l.Front(); at != nil {
			return at.Value.(net.Conn)
		}
	}
	return another
}

// close closes all that are open, and those that come later.
func (c *connections) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for conn := range c.places {
		closeNow(conn)
	}
}

// closeNow closes a connection without TLS's farewell, which may wait for the client.
func closeNow(conn net.Conn) {
	if t, ok := conn.(*tls.Conn); ok {
		conn = t.NetConn()
	}
	_ = conn.Close() // it may be closed already
}
