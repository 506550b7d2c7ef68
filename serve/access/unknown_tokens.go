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
	// acceptedLasts is how long a token stays known after the API server has accepted it.
	acceptedLasts = time.Hour
	// failuresLast is the interval in which the rejected tokens of an address are counted.
	failuresLast = time.Minute
	// refusedAtOnce is how many requests of an address are rejected without a delay within failuresLast. Each further
	// rejection is delayed by refusalDelay, so that a client that retries at once costs little CPU time.
	refusedAtOnce = 240
	refusalDelay  = time.Second
)

// unknownTokens limits the reviews of unknown tokens. It is safe for concurrent use.
type unknownTokens struct {
	slots     chan struct{}
	answers   *reviewCache[userReview] // a cache of their own, so that they cannot evict known tokens
	perMinute int                      // rejected tokens per address
	failures  perAddress
	known     *utilcache.LRUExpireCache // the cacheKey of each accepted token
}

func newUnknownTokens(o UpstreamOptions) *unknownTokens {
	return &unknownTokens{
		slots: make(chan struct{}, cmp.Or(o.UnknownTokenReviews, 16)), answers: newReviewCache[userReview](),
		perMinute: cmp.Or(o.UnknownTokensPerMinute, 120), failures: newPerAddress(),
		known: utilcache.NewLRUExpireCache(cacheEntries),
	}
}

// accepted reports whether the API server has accepted a token within acceptedLasts.
func (s *unknownTokens) accepted(k cacheKey) bool {
	_, ok := s.known.Get(k)
	return ok
}

func (s *unknownTokens) accept(k cacheKey) { s.known.Add(k, true, acceptedLasts) }

// begin counts a token of an address as rejected. It returns a function that undoes this, or false if the address has
// reached its limit within the last minute.
func (s *unknownTokens) begin(address netip.Addr) (undo func(), ok bool) {
	count := s.failures.of(address)
	undo = func() { count.Add(-1) }
	if count.Add(1) > int64(s.perMinute) {
		undo()
		return nil, false
	}
	return undo, true
}

// perAddress has a counter per address, which expires after failuresLast. It is safe for concurrent use.
type perAddress struct{ counts *utilcache.LRUExpireCache } // an *atomic.Int64 by address

func newPerAddress() perAddress { return perAddress{utilcache.NewLRUExpireCache(cacheEntries)} }

// of returns the counter of an address. Two concurrent first calls for an address may return different counters.
func (p perAddress) of(address netip.Addr) *atomic.Int64 {
	n, ok := p.counts.Get(address)
	if !ok {
		n = new(atomic.Int64)
		p.counts.Add(address, n, failuresLast)
	}
	return n.(*atomic.Int64)
}

// delay returns at once for the first refusedAtOnce rejections of an address within failuresLast. Otherwise it waits
// for refusalDelay, or until the client disconnects. Limits.Unauthenticated bounds the number of waiting requests.
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

// clientOf returns the address under which the client of a request is counted.
func clientOf(r *http.Request) netip.Addr {
	at, _ := netip.ParseAddrPort(r.RemoteAddr) // the zero Addr for other networks
	return connlimit.Client(at.Addr())
}
