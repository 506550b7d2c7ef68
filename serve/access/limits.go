package access

import (
	"cmp"
	"sync"
	"time"
)

// Limits bound what clients may take of the process. The zero value has the defaults.
type Limits struct {
	// Requests of authenticated users that are under way, watches apart; 429 beyond. Default 400, as kube-apiserver's
	// --max-requests-inflight.
	Requests int
	// RequestsPerUser of them, so that a user's slow readers leave places for other users. Default half of Requests.
	RequestsPerUser int
	// Watches, and other requests for which LongRunning was called; 429 beyond. Default 10,000.
	Watches int
	// WatchesPerUser of them. Agents of one DaemonSet are one user. Default 5,000.
	WatchesPerUser int
	// RequestTime bounds a request of an authenticated user that is no watch: reading its body, and writing the answer.
	// Default 60 s, as kube-apiserver's --request-timeout.
	RequestTime time.Duration
	// Body bounds a request's body in bytes. Default 3 MiB, as kube-apiserver's.
	Body int64
	// Header bounds a request's URL and header in bytes, selectors and tokens included; 431 beyond. Default 64 KiB.
	Header int
	// HeaderTime bounds how long a client may take for the TLS handshake, and for the header of a request. Header and body
	// of a request that is not authenticated may take twice as long. Default 10 s.
	HeaderTime time.Duration
	// IdleTime is how long a connection without a request stays. Default 90 s.
	IdleTime time.Duration
	// Connections that are open; each watch has one. Default 10,400, as many as there may be watches and requests. Of
	// authenticated connections 1,000 may be between two requests. Package internal/connlimit says which connection is
	// closed for another one: an authenticated one that is in use never is.
	Connections int
	// Strangers of them: connections without an authenticated request. One more closes the oldest of the address that has
	// most. Default 1,000, some 60 MB.
	Strangers int
	// StrangersPerAddress of them, from one IPv4 address or one IPv6 /64. Default 500.
	StrangersPerAddress int
}

// WithDefaults returns the limits with defaults for those that are 0.
func (l Limits) WithDefaults() Limits {
	requests := cmp.Or(l.Requests, 400)
	return Limits{
		Requests:            requests,
		RequestsPerUser:     cmp.Or(l.RequestsPerUser, max(requests/2, 1)),
		Watches:             cmp.Or(l.Watches, 10_000),
		WatchesPerUser:      cmp.Or(l.WatchesPerUser, 5_000),
		RequestTime:         cmp.Or(l.RequestTime, time.Minute),
		Body:                cmp.Or(l.Body, 3<<20),
		Header:              cmp.Or(l.Header, 64<<10),
		HeaderTime:          cmp.Or(l.HeaderTime, 10*time.Second),
		IdleTime:            cmp.Or(l.IdleTime, 90*time.Second),
		Connections:         cmp.Or(l.Connections, 10_400),
		Strangers:           cmp.Or(l.Strangers, 1000),
		StrangersPerAddress: cmp.Or(l.StrangersPerAddress, 500),
	}
}

// counter counts requests under way.
type counter struct {
	limits Limits

	mu    sync.Mutex
	all   count
	users map[string]count // without users that have nothing under way
}

// count is how many requests and watches are under way.
type count struct{ requests, watches int }

// begin counts a user's request; false if there are too many.
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

// beginWatch counts a request as a watch from now on; false if there are too many, or too many of the user.
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
