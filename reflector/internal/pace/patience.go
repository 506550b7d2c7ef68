package pace

import (
	"errors"
	"time"

	"github.com/larder-dev/larder/reflector/internal/request"
)

// RequestTimeout bounds a request that is not a watch, and the wait for a watch to be accepted. API servers give up
// after 60 s themselves. Requests that cannot be made smaller may take longer (Patience).
const RequestTimeout = 90 * time.Second

// maxPatience is the maximum of Patience.Time. The largest object that etcd accepts by default, 1.5 MB, takes a third
// of that time over 56 kbit/s.
const maxPatience = 12 * time.Minute

// Patience is the time-out of a request that cannot be made smaller: for the server's resourceVersion, for a single
// object, or for a page of the lowest limit. Over a slow link one large object takes longer than RequestTimeout, and
// would be cut off again and again. The time-out only grows in a run: between two attempts at a large object, quick
// answers about other objects say nothing about the large object.
type Patience struct {
	doublings int
}

func (p *Patience) Time() time.Duration {
	return min(RequestTimeout<<p.doublings, maxPatience)
}

// Learn adapts the time-out to the result and the duration of a request for a single object. exhausted is true if more
// time would not help: an API server or gateway cut off the answer, as they do after a minute, or maxPatience was not
// enough.
func (p *Patience) Learn(took time.Duration, err error) (exhausted bool) {
	if err == nil || errors.Is(err, request.ErrPutOff) {
		return false
	}
	if took >= p.Time() && p.Time() < maxPatience {
		p.doublings++
		return false
	}
	return took >= PromptPage && request.Cut(err)
}
