package access

import (
	"cmp"
	"net/http"
	"net/netip"
	"sync/atomic"
	"time"

	utilcache "k8s.io/apimachinery/pkg/util/cache"

	"github.com/larder-dev/larder/internal/connlimit"
)

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
