package pace

import (
	"errors"
	"time"

	"github.com/larder-dev/larder/reflector/internal/request"
)

// requestTimeout bounds a request that is not a watch, and the wait for a watch to be accepted. API servers
// give up after 60 s themselves. See patience for what cannot ask for less.
const RequestTimeout = 90 * time.Second

// maxPatience bounds the time that an answer of one object has. The largest object that etcd takes by default, 1.5 MB,
// takes a third of it over 56 kbit/s.
const maxPatience = 12 * time.Minute

// Patience is how long a request may take that cannot ask for less: a probe, a look-up, a page of the least limit.
// Over a thin link one large object takes longer than requestTimeout, and would be asked for, and cut, for ever. The
// zero value is requestTimeout. It is never taken back in a run: between two attempts at a large object others come at
// once, and say nothing about it.
type Patience struct {
	doublings int
}

// Time is what the next such request has.
func (p *Patience) Time() time.Duration {
	return min(RequestTimeout<<p.doublings, maxPatience)
}

// Learn takes what came of such a request after so long. It reports whether more time would not help: somebody else cut
// the answer, as API servers and gateways do after a minute, or all of our patience was not enough.
func (p *Patience) Learn(took time.Duration, err error) (hopeless bool) {
	if err == nil || errors.Is(err, request.ErrPutOff) {
		return false
	}
	if took >= p.Time() && p.Time() < maxPatience {
		p.doublings++
		return false
	}
	return took >= PromptPage && request.Cut(err)
}
