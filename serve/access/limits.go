package access

import (
	"cmp"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	utilcache "k8s.io/apimachinery/pkg/util/cache"

	"github.com/larder-dev/larder/internal/connlimit"
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

const (
	// acceptedLasts is how long a token counts as known after the API server has accepted it.
	acceptedLasts = time.Hour
	// failuresLast is the interval in which the rejected tokens of a client address are counted.
	failuresLast = time.Minute
	// refusedAtOnce is how many requests of a client address are rejected without a delay within failuresLast. Each
	// further rejection is delayed by refusalDelay, so that a client that retries at once costs little CPU time.
	refusedAtOnce = 240
	refusalDelay  = time.Second
)

// unknownTokens limits the TokenReviews of unknown tokens: tokens that neither the stored keys nor the API server have
// verified lately. It is safe for concurrent use.
type unknownTokens struct {
	slots chan struct{}
	// answers has a separate cache, so as not to evict answers about known tokens.
	answers *reviewCache[userReview]
	// perMinute is the maximum number of rejected tokens per client address.
	perMinute int
	failures  perAddress
	// known has the cacheKeys of the accepted tokens.
	known *utilcache.LRUExpireCache
}

func newUnknownTokens(o UpstreamOptions) *unknownTokens {
	return &unknownTokens{
		slots: make(chan struct{}, cmp.Or(o.UnknownTokenReviews, 16)), answers: newReviewCache[userReview](),
		perMinute: cmp.Or(o.UnknownTokensPerMinute, 120), failures: newPerAddress(),
		known: utilcache.NewLRUExpireCache(cacheEntries),
	}
}

func (s *unknownTokens) accepted(k cacheKey) bool {
	_, ok := s.known.Get(k)
	return ok
}

func (s *unknownTokens) accept(k cacheKey) { s.known.Add(k, true, acceptedLasts) }

// begin counts one rejected token of a client address, before its review. undo decrements the count if the token is
// accepted. ok is false if the address has reached its limit within the last minute.
func (s *unknownTokens) begin(address netip.Addr) (undo func(), ok bool) {
	count := s.failures.of(address)
	undo = func() { count.Add(-1) }
	if count.Add(1) > int64(s.perMinute) {
		undo()
		return nil, false
	}
	return undo, true
}

// perAddress counts events per client address. A counter expires after failuresLast. It is safe for concurrent use.
type perAddress struct{ counts *utilcache.LRUExpireCache }

func newPerAddress() perAddress { return perAddress{utilcache.NewLRUExpireCache(cacheEntries)} }

// of returns the counter of a client address. Two concurrent first calls for an address may return different counters.
func (p perAddress) of(address netip.Addr) *atomic.Int64 {
	n, ok := p.counts.Get(address)
	if !ok {
		n = new(atomic.Int64)
		p.counts.Add(address, n, failuresLast)
	}
	return n.(*atomic.Int64)
}

// delay delays a rejection by refusalDelay, unless it is one of the first refusedAtOnce rejections of the client's
// address within failuresLast. Limits.Unauthenticated bounds the number of waiting requests.
func (p perAddress) delay(r *http.Request) {
	if p.of(clientOf(r)).Add(1) <= refusedAtOnce {
		return
	}
	timer := time.NewTimer(refusalDelay)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.Context().Done():
	}
}

// clientOf returns the address under which the client of a request is counted: an IPv4 address or an IPv6 /64.
func clientOf(r *http.Request) netip.Addr {
	// ParseAddrPort returns the zero Addr for a connection without an IP address.
	at, _ := netip.ParseAddrPort(r.RemoteAddr)
	return connlimit.Client(at.Addr())
}
