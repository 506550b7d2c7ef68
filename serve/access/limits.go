package access

import (
	"cmp"
	"sync"
	"time"
)

// Limits bound what clients may take of the process. The zero value has the defaults.
type Limits struct {
	// Requests that are under way, watches apart, of known and unknown clients together; 429 beyond. Default 400, as
	// kube-apiserver's --max-requests-inflight.
	Requests int
	// Watches, and other requests for which LongRunning was called; 429 beyond. Default 10,000.
	Watches int
	// WatchesPerUser of them. Agents of one DaemonSet are one user. Default 5,000.
	WatchesPerUser int
	// RequestTime bounds a request that is no watch: reading its body, and writing the answer. Default 60 s, as
	// kube-apiserver's --request-timeout.
	RequestTime time.Duration
	// Body bounds a request's body in bytes. Default 3 MiB, as kube-apiserver's.
	Body int64
	// Header bounds a request's URL and header in bytes, selectors and tokens included; 431 beyond. Default 64 KiB.
	Header int
	// HeaderTime bounds how long a client may take for the TLS handshake, and for the header of a request. Default 10 s.
	HeaderTime time.Duration
	// IdleTime is how long a connection without a request stays. Default 90 s.
	IdleTime time.Duration
	// Connections that are open; each watch has one. Default 10,400, as many as there may be watches and requests. Of
	// those without a request, which anybody can open, there are 1,000 at most, some 40 MB. For one more the oldest is
	// closed that has sent no request yet, else the one that is idle for longest, and if all are at work the new one.
	Connections int
}

// WithDefaults returns the limits with defaults for those that are 0.
func (l Limits) WithDefaults() Limits {
	return Limits{
		Requests:       cmp.Or(l.Requests, 400),
		Watches:        cmp.Or(l.Watches, 10_000),
		WatchesPerUser: cmp.Or(l.WatchesPerUser, 5_000),
		RequestTime:    cmp.Or(l.RequestTime, time.Minute),
		Body:           cmp.Or(l.Body, 3<<20),
		Header:         cmp.Or(l.Header, 64<<10),
		HeaderTime:     cmp.Or(l.HeaderTime, 10*time.Second),
		IdleTime:       cmp.Or(l.IdleTime, 90*time.Second),
		Connections:    cmp.Or(l.Connections, 10_400),
	}
}

// counter counts requests under way.
type counter struct {
	limits Limits

	mu       sync.Mutex
	requests int
	watches  int
	perUser  map[string]int // watches; users without any are not in it
}

// begin counts a request; false if there are too many.
func (c *counter) begin() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.requests >= c.limits.Requests {
		return false
	}
	c.requests++
	return true
}

func (c *counter) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests--
}

// beginWatch counts a request as a watch from now on; false if there are too many, or too many of the user.
func (c *counter) beginWatch(user string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.watches >= c.limits.Watches || c.perUser[user] >= c.limits.WatchesPerUser {
		return false
	}
	c.requests--
	c.watches++
	c.perUser[user]++
	return true
}

func (c *counter) endWatch(user string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watches--
	if c.perUser[user]--; c.perUser[user] == 0 {
		delete(c.perUser, user)
	}
}
