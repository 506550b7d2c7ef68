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
	closed          bool                     // true after Close; guarded by mu, like all fields below
	open            map[net.Conn]*connection // all open connections that the limiter has admitted
	unauthenticated int                      // number of open connections that are not authenticated
	addresses       map[netip.Addr]*address  // the remote addresses that have unauthenticated connections
	// byCount[n] is the list of *address with n unauthenticated connections, in the order in which they reached n.
	byCount []*list.List
	most    int // the highest number of unauthenticated connections that one address has
	// the idle authenticated connections, of type *connection; the connection that has been idle longest is first
	idle list.List
}

// address is a remote address that has unauthenticated connections. Limiter.mu guards its fields.
type address struct {
	unauthenticated list.List     // its unauthenticated connections, of type *connection, oldest first
	at              *list.Element // the address's element in its list in Limiter.byCount
}

// connection is one open connection. Limiter.mu guards its fields.
type connection struct {
	limiter       *Limiter
	conn          net.Conn
	address       netip.Addr
	authenticated bool
	hijacked      bool
	idle          *list.Element // the connection's element in Limiter.idle; nil if it is unauthenticated or in use
	inAddress     *list.Element // the connection's element in address.unauthenticated; nil if it is authenticated
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
	// The server calls ConnContext for a new connection, before it reads anything from it.
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

// handled is called when the handler of a request returns. If the connection was hijacked, handled removes it from the
// Limiter, because the server reports no later state of such a connection.
func (l *Limiter) handled(ctx context.Context) {
	c, _ := ctx.Value(connectionKey{}).(*connection)
	l.mu.Lock()
	defer l.mu.Unlock()
	if c != nil && c.hijacked && l.open[c.conn] == c {
		l.remove(c)
	}
}

// Authenticated records whether the client of the request with context ctx is authenticated. The handler calls it for
// every request whose client it has checked. It does nothing if the server has no Limiter.
func Authenticated(ctx context.Context, yes bool) {
	c, ok := ctx.Value(connectionKey{}).(*connection)
	if !ok {
		return
	}
	if surplus := c.limiter.authenticate(c, yes); surplus != nil {
		closeNow(surplus)
	}
}

// Close closes all open connections, and from now on each new one.
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

// add records a new connection. If that exceeds a limit, it returns the connection to close, which may be the new one;
// otherwise nil.
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

// note records a state change that the server reports of a connection. If that exceeds a limit, it returns the
// connection to close; otherwise nil.
func (l *Limiter) note(conn net.Conn, state http.ConnState) (surplus net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.open[conn]
	switch {
	case c == nil: // the limiter has closed this connection, so it is no longer recorded
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

// authenticate moves a connection from the unauthenticated connections to the authenticated ones if yes is true, and
// back if it is false. If that exceeds a limit, it returns the connection to close; otherwise nil.
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

// admit returns the connection to close so that the new connection c stays below Total: an older connection, c itself,
// or nil.
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

// admitUnauthenticated returns the unauthenticated connection to close so that c stays below the limits of
// unauthenticated connections; nil if none must be closed.
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
// one of the address that has most of them, counting c.
func (l *Limiter) evictUnauthenticated(c *connection) net.Conn {
	from := l.byCount[l.most].Front().Value.(*address)
	if own := l.addresses[c.address]; own != nil && own.unauthenticated.Len() == l.most {
		from = own
	}
	return l.evict(&from.unauthenticated)
}

// evict removes the first connection of a list from the Limiter and returns it.
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

// recount moves an address to the list in byCount for its current number of unauthenticated connections; n is the
// number before.
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

// remove removes a closed connection from the Limiter.
func (l *Limiter) remove(c *connection) {
	l.unlist(c)
	delete(l.open, c.conn)
}

// unlist removes a connection from the lists of idle and of unauthenticated connections.
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

// addressOf returns the address under which an unauthenticated connection is counted (see Client). It returns the zero
// Addr if the remote address is no IP address.
func addressOf(conn net.Conn) netip.Addr {
	at, err := netip.ParseAddrPort(conn.RemoteAddr().String())
	if err != nil {
		return netip.Addr{}
	}
	return Client(at.Addr())
}

// Client returns the address under which a client is counted: its IPv4 address, or the first address of its IPv6 /64,
// because one client may have a whole /64.
func Client(a netip.Addr) netip.Addr {
	if a = a.Unmap(); a.Is6() {
		if network, err := a.WithZone("").Prefix(64); err == nil {
			return network.Addr()
		}
	}
	return a
}

// closeNow closes a connection without sending TLS's closing message, because that may block until the client reads.
func closeNow(conn net.Conn) {
	if t, ok := conn.(*tls.Conn); ok {
		conn = t.NetConn()
	}
	_ = conn.Close() // an error is ignored: the connection may be closed already
}
