package reflector

import (
	"errors"
	"time"
)

// maxPatience bounds the time that an answer of one object has. The largest object that etcd takes by default, 1.5 MB,
// takes a third of it over 56 kbit/s.
const maxPatience = 12 * time.Minute

// errTooLong is why there is no use in asking for one object again.
var errTooLong = errors.New("one object takes longer to come than its request may last")

// patience is how long a request may take that cannot ask for less: a probe, a look-up, a page of the least limit.
// Over a thin link one large object takes longer than requestTimeout, and would be asked for, and cut, for ever. The
// zero value is requestTimeout. It is never taken back in a run: between two attempts at a large object others come at
// once, and say nothing about it.
type patience struct {
	doublings int
}

// time is what the next such request has.
func (p *patience) time() time.Duration {
	return min(requestTimeout<<p.doublings, maxPatience)
}

// learn takes what came of such a request after so long. It reports whether more time would not help: somebody else cut
// the answer, as API servers and gateways do after a minute, or all of our patience was not enough.
func (p *patience) learn(took time.Duration, err error) (hopeless bool) {
	if err == nil || errors.Is(err, ErrPutOff) {
		return false
	}
	if took >= p.time() && p.time() < maxPatience {
		p.doublings++
		return false
	}
	return took >= promptPage && isCut(err)
}
