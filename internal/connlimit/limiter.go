package connlimit

import (
	"cmp"
	"container/list"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"sync"
)

// Options are the limits of a Limiter.
type Options struct {
	// Total is the maximum number of open connections. It has no default.
	Total int
	// Unauthenticated is the maximum number of connections that are not authenticated. Default Total.
	Unauthenticated int
	// UnauthenticatedPerAddress is the maximum number of unauthenticated connections from one IPv4 address or one IPv6
	// /64. Default Unauthenticated.
	UnauthenticatedPerAddress int
	// Idle is the maximum number of idle authenticated connections. Default Total.
	Idle int
}

// Limiter limits the connections of one http.Server. Create it with New.
type Limiter struct {
	o Options

	mu              sync.Mutex
	closed          bool // closed is true after Close; mu guards closed and the fields below
	open            map[net.Conn]*connection
	unauthenticated int
	addresses       map[netip.Addr]*address // the remote addresses with unauthenticated connections
	// byCount[n] is the list of *address with n unauthenticated connections, in the order in which they reached n.
	byCount []*list.List
	most    int // most is the largest number of unauthenticated connections of one address
	// idle has the idle authenticated connections, of type *connection. The first was idle longest.
	idle list.List
}

// address is a remote address with unauthenticated connections. Limiter.mu guards its fields.
type address struct {
	unauthenticated list.List // the address's unauthenticated connections, of type *connection, oldest first
	at              *list.Element
}

// connection is an open connection. Limiter.mu guards its fields.
type connection struct {
	limiter       *Limiter
	conn          net.Conn
	address       netip.Addr
	authenticated bool
	hijacked      bool
	idle          *list.Element // element in Limiter.idle; nil if the connection is unauthenticated or in use
	inAddress     *list.Element // element in address.unauthenticated; nil if the connection is authenticated
}

// New returns a Limiter. It starts nothing.
func New(o Options) *Limiter {
	o.Unauthenticated = cmp.Or(o.Unauthenticated, o.Total)
	o.UnauthenticatedPerAddress = cmp.Or(o.UnauthenticatedPerAddress, o.Unauthenticated)
	o.Idle = cmp.Or(o.Idle, o.Total)
	return &Limiter{o: o, open: map[net.Conn]*connection{}, addresses: map[netip.Addr]*address{}}
}

type connectionKey struct{}

// Attach sets the server's ConnContext and ConnState, and wraps its Handler. Call it before the server serves.
func (l *Limiter) Attach(s *http.Server) {
	next := s.Handler
	s.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer l.handled(r.Context())
		next.ServeHTTP(w, r)
	})
	// The server calls ConnContext for a new connection, before it reads anything from that connection.
	s.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
		c, surplus := l.add(conn)
		if surplus != nil {
			closeNow(surplus)
		}
		return context.WithValue(ctx, connectionKey{}, c)
	}
	s.ConnState = func(conn net.Conn, state http.ConnState) {
		if surplus := l.note(conn, state); surplus != nil {
			closeNow(surplus)
		}
	}
}

// handled removes a hijacked connection from the Limiter when the request's handler returns, because http.Server
// reports no later state of a hijacked connection.
func (l *Limiter) handled(ctx context.Context) {
	c, _ := ctx.Value(connectionKey{}).(*connection)
	l.mu.Lock()
	defer l.mu.Unlock()
	if c != nil && c.hijacked && l.open[c.conn] == c {
		l.remove(c)
	}
}

// Authenticated notes whether the client of the request with context ctx is authenticated. The handler calls it for
// every request whose client it has checked. Without a Limiter of the server, the call does nothing.
func Authenticated(ctx context.Context, yes bool) {
	c, ok := ctx.Value(connectionKey{}).(*connection)
	if !ok {
		return
	}
	if surplus := c.limiter.authenticate(c, yes); surplus != nil {
		closeNow(surplus)
	}
}

// Close closes all open connections. Later connections are closed at once.
func (l *Limiter) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for conn := range l.open {
		closeNow(conn)
	}
}

// Unauthenticated returns the number of open connections that are not authenticated.
func (l *Limiter) Unauthenticated() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.unauthenticated
}

func (l *Limiter) add(conn net.Conn) (c *connection, surplus net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c = &connection{limiter: l, conn: conn, address: addressOf(conn)}
	if l.closed {
		return c, conn
	}
	if surplus = l.admit(c); surplus != conn {
		l.open[conn] = c
		l.addUnauthenticated(c)
	}
	return c, surplus
}

// note handles a connection's state change that http.Server reports. surplus is the connection to close if a limit is
// exceeded; otherwise nil.
func (l *Limiter) note(conn net.Conn, state http.ConnState) (surplus net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.open[conn]
	switch {
	case c == nil: // the limiter has closed and removed this connection
	case state == http.StateClosed:
		l.remove(c)
	case state == http.StateHijacked:
		c.hijacked = true
	case c.authenticated:
		l.unlist(c)
		if state != http.StateIdle {
			break
		}
		if c.idle = l.idle.PushBack(c); l.idle.Len() > l.o.Idle {
			surplus = l.evict(&l.idle)
		}
	}
	return surplus
}

// authenticate marks a connection as authenticated, or as unauthenticated if yes is false. surplus is the connection to
// close if a limit is exceeded; otherwise nil.
func (l *Limiter) authenticate(c *connection, yes bool) (surplus net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[c.conn] != c || c.authenticated == yes {
		return nil
	}
	l.unlist(c)
	if c.authenticated = yes; !yes {
		surplus = l.admitUnauthenticated(c)
		l.addUnauthenticated(c)
	}
	return surplus
}

// admit returns the connection to close so that the number of connections with the new connection c stays below Total:
// an older connection, c itself, or nil.
func (l *Limiter) admit(c *connection) (surplus net.Conn) {
	if surplus = l.admitUnauthenticated(c); surplus != nil || len(l.open) < l.o.Total {
		return surplus
	}
	switch {
	case l.unauthenticated > 0:
		return l.evictUnauthenticated(c)
	case l.idle.Len() > 0:
		return l.evict(&l.idle)
	}
	return c.conn
}

// admitUnauthenticated returns the unauthenticated connection to close so that the number of unauthenticated
// connections with c stays below its limits; nil if none must be closed.
func (l *Limiter) admitUnauthenticated(c *connection) (surplus net.Conn) {
	if own := l.addresses[c.address]; own != nil && own.unauthenticated.Len() >= l.o.UnauthenticatedPerAddress {
		return l.evict(&own.unauthenticated)
	}
	if l.unauthenticated >= l.o.Unauthenticated {
		return l.evictUnauthenticated(c)
	}
	return nil
}

// evictUnauthenticated removes an unauthenticated connection to admit c, and returns the removed connection: the oldest
// of the address with the most unauthenticated connections, counting c.
func (l *Limiter) evictUnauthenticated(c *connection) net.Conn {
	from := l.byCount[l.most].Front().Value.(*address)
	if own := l.addresses[c.address]; own != nil && own.unauthenticated.Len() == l.most {
		from = own
	}
	return l.evict(&from.unauthenticated)
}

func (l *Limiter) evict(from *list.List) net.Conn {
	c := from.Front().Value.(*connection)
	l.remove(c)
	return c.conn
}

func (l *Limiter) addUnauthenticated(c *connection) {
	own := l.addresses[c.address]
	if own == nil {
		own = &address{}
		l.addresses[c.address] = own
	}
	c.inAddress = own.unauthenticated.PushBack(c)
	l.unauthenticated++
	l.recount(own, own.unauthenticated.Len()-1)
}

// recount moves an address to the list in byCount for its current number of unauthenticated connections. The address
// was in the list for n.
func (l *Limiter) recount(a *address, n int) {
	if a.at != nil {
		l.byCount[n].Remove(a.at)
		a.at = nil
	}
	now := a.unauthenticated.Len()
	if l.most = max(l.most, now); n == l.most && l.byCount[n].Len() == 0 {
		l.most = now
	}
	if now == 0 {
		return
	}
	for len(l.byCount) <= now {
		l.byCount = append(l.byCount, list.New())
	}
	a.at = l.byCount[now].PushBack(a)
}

func (l *Limiter) remove(c *connection) {
	l.unlist(c)
	delete(l.open, c.conn)
}

func (l *Limiter) unlist(c *connection) {
	if c.idle != nil {
		l.idle.Remove(c.idle)
	}
	if own := l.addresses[c.address]; c.inAddress != nil {
		own.unauthenticated.Remove(c.inAddress)
		l.unauthenticated--
		if l.recount(own, own.unauthenticated.Len()+1); own.unauthenticated.Len() == 0 {
			delete(l.addresses, c.address)
		}
	}
	c.idle, c.inAddress = nil, nil
}

func addressOf(conn net.Conn) netip.Addr {
	at, err := netip.ParseAddrPort(conn.RemoteAddr().String())
	if err != nil {
		return netip.Addr{}
	}
	return Client(at.Addr())
}

// Client returns the address under which connlimit counts a client: its IPv4 address, or the first address of its IPv6
// /64, because one client may have a whole /64.
func Client(a netip.Addr) netip.Addr {
	if a = a.Unmap(); a.Is6() {
		if network, err := a.WithZone("").Prefix(64); err == nil {
			return network.Addr()
		}
	}
	return a
}

// closeNow closes a connection without TLS's closing message, because sending that message may block until the client
// reads.
func closeNow(conn net.Conn) {
	if t, ok := conn.(*tls.Conn); ok {
		conn = t.NetConn()
	}
	_ = conn.Close() // the connection may be closed already
}
