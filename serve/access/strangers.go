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
	// acceptedLasts is how long a token that the API server has accepted is known.
	acceptedLasts = time.Hour
	// failuresLast is the time in which the refused tokens of an address are counted.
	failuresLast = time.Minute
)

// strangers bounds the reviews of unknown tokens. It is safe for concurrent use.
type strangers struct {
	slots     chan struct{}
	answers   *reviewCache[userReview]  // apart from those of known tokens, which they must not push out
	perMinute int                       // refused tokens of an address
	known     *utilcache.LRUExpireCache // the cacheKey of each token that was accepted
	failures  *utilcache.LRUExpireCache // an *atomic.Int64 by address
}

func newStrangers(o UpstreamOptions) *strangers {
	return &strangers{
		slots: make(chan struct{}, cmp.Or(o.Strangers, 16)), answers: newReviewCache[userReview](),
		perMinute: cmp.Or(o.StrangersPerMinute, 120),
		known:     utilcache.NewLRUExpireCache(cacheEntries), failures: utilcache.NewLRUExpireCache(cacheEntries),
	}
}

// accepted reports whether the API server has accepted a token within acceptedLasts.
func (s *strangers) accepted(k cacheKey) bool {
	_, ok := s.known.Get(k)
	return ok
}

func (s *strangers) accept(k cacheKey) { s.known.Add(k, true, acceptedLasts) }

// begin counts a token of an address as refused. It returns the function that takes that back, or false if as many were
// refused within the last minute as may be. Two first tokens of an address may count as one.
func (s *strangers) begin(address netip.Addr) (takeBack func(), ok bool) {
	n, ok := s.failures.Get(address)
	if !ok {
		n = new(atomic.Int64)
		s.failures.Add(address, n, failuresLast)
	}
	count := n.(*atomic.Int64)
	takeBack = func() { count.Add(-1) }
	if count.Add(1) > int64(s.perMinute) {
		takeBack()
		return nil, false
	}
	return takeBack, true
}

// clientOf returns the address by which the client of a request is counted.
func clientOf(r *http.Request) netip.Addr {
	at, _ := netip.ParseAddrPort(r.RemoteAddr) // the zero Addr for other networks
	return connlimit.Client(at.Addr())
}
