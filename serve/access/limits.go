package access

import (
	"cmp"
	"sync"
	"time"
)

// Limits limit the resources that clients may use. Fields that are zero have their defaults.
type Limits struct {
	// Requests is the maximum number of concurrent authenticated requests, not counting watches. Further requests
	// return 429. Default 400, as kube-apiserver's --max-requests-inflight.
	Requests int
	// RequestsPerUser is the maximum number of Requests for one user, so that slow readers do not block other users.
	// Default: half of Requests.
	RequestsPerUser int
	// Watches is the maximum number of long-running requests (LongRunning). Further watches return 429. Default 10,000.
	Watches int
	// WatchesPerUser is the maximum number of Watches for one user, such as all agents of a DaemonSet. Default 5,000.
	WatchesPerUser int
	// RequestTime limits an authenticated request other than a watch, from reading its body to writing the response.
	// Default 60 s, as kube-apiserver's --request-timeout.
	RequestTime time.Duration
	// Body is the maximum size of a request's body in bytes. Default 3 MiB, as in kube-apiserver.
	Body int64
	// Header is the maximum size, in bytes, of a request's URL and header, including selectors and tokens. Larger
	// requests return 431. Default 64 KiB.
	Header int
	// HeaderTime limits the TLS handshake, and the reading of a request's header. Header and body of an unauthenticated
	// request together may take twice as long. Default 10 s.
	HeaderTime time.Duration
	// IdleTime is how long a connection without a request stays open. Default 90 s.
	IdleTime time.Duration
	// Connections is the maximum number of open connections; each watch over HTTP/1.1 has its own connection. Default
	// 10,400, the sum of Watches and Requests. Up to 1,000 authenticated connections may be idle. Package
	// internal/connlimit documents which connection is closed when there are too many. An authenticated connection in
	// use is never closed.
	Connections int
	// Unauthenticated is the maximum number of connections whose last request was not authenticated, and of connections
	// without a request. Beyond this number, a new connection closes the oldest unauthenticated connection of the
	// address that has the most of them. Default 1,000, which need about 60 MB.
	Unauthenticated int
	// UnauthenticatedPerAddress limits Unauthenticated connections per IPv4 address or IPv6 /64. Default 500.
	UnauthenticatedPerAddress int
}

// WithDefaults returns a copy of the limits in which fields that are zero have their defaults.
func (l Limits) WithDefaults() Limits {
	requests := cmp.Or(l.Requests, 400)
	return Limits{
		Requests:                  requests,
		RequestsPerUser:           cmp.Or(l.RequestsPerUser, max(requests/2, 1)),
		Watches:                   cmp.Or(l.Watches, 10_000),
		WatchesPerUser:            cmp.Or(l.WatchesPerUser, 5_000),
		RequestTime:               cmp.Or(l.RequestTime, time.Minute),
		Body:                      cmp.Or(l.Body, 3<<20),
		Header:                    cmp.Or(l.Header, 64<<10),
		HeaderTime:                cmp.Or(l.HeaderTime, 10*time.Second),
		IdleTime:                  cmp.Or(l.IdleTime, 90*time.Second),
		Connections:               cmp.Or(l.Connections, 10_400),
		Unauthenticated:           cmp.Or(l.Unauthenticated, 1000),
		UnauthenticatedPerAddress: cmp.Or(l.UnauthenticatedPerAddress, 500),
	}
}

type counter struct {
	limits Limits

	mu  sync.Mutex
	all count
	// users only has users with running requests or watches.
	users map[string]count
}

type count struct{ requests, watches int }

// begin counts a request of a user. It returns false, without counting, if a limit is reached.
func (c *counter) begin(user string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all.requests >= c.limits.Requests || c.users[user].requests >= c.limits.RequestsPerUser {
		return false
	}
	c.addLocked(user, 1, 0)
	return true
}

func (c *counter) end(user string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.addLocked(user, -1, 0)
}

// beginWatch counts a running request of a user as a watch instead. It returns false if a limit is reached.
func (c *counter) beginWatch(user string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all.watches >= c.limits.Watches || c.users[user].watches >= c.limits.WatchesPerUser {
		return false
	}
	c.addLocked(user, -1, 1)
	return true
}

func (c *counter) endWatch(user string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.addLocked(user, 0, -1)
}

func (c *counter) addLocked(user string, requests, watches int) {
	own := c.users[user]
	own.requests, own.watches = own.requests+requests, own.watches+watches
	if c.users[user] = own; own == (count{}) {
		delete(c.users, user)
	}
	c.all.requests, c.all.watches = c.all.requests+requests, c.all.watches+watches
}
