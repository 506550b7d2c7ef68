package reflector

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/larder-dev/larder/internal/limiter"
)

const (
	// firstLimit is the limit of a run's first page, whose objects may be large: a link may carry 500 objects of 100 KB
	// in time, but not 2,000. Each additional page of a list of 100,000 pods costs the server 37 ms of CPU, so the two
	// small pages at the start are 2 % of the list's cost.
	firstLimit = 500
	// leastLimit is the lowest limit of a page request. It is not 1, because requests with limit=1 count as probes.
	leastLimit = 2
	// pageBytes is the target size of a page. Half of it holds 2,000 pods.
	pageBytes = 16 << 20
	// promptPage is the time below which a page doubles the next limit. API servers cut off answers that take a minute.
	promptPage = 20 * time.Second
	// maxPenalty is the maximum number of pages that must arrive before a larger page is requested (Limit.hold).
	maxPenalty = 32
)

// pageLimit is the number of objects to request in a page. A run keeps its pageLimit, so that the next list need not
// adapt to the link and the objects again.
type pageLimit struct {
	Next, Least, most int64
	// cutAt is the last limit whose answer broke off; 0 once a page of that size has arrived.
	cutAt int64
	// hold is how many more pages must arrive before a larger page is requested. penalty is the initial value of hold
	// after an answer has broken off. It doubles each time: otherwise, on a link that breaks off every long answer,
	// every page would be requested twice.
	hold, penalty int
	// settled is false after a broken answer: several broken answers in a row increase the penalty only once.
	settled bool
	slow    int
}

// newPageLimit returns the limit of a run whose pages may have up to most objects.
func newPageLimit(most int64) pageLimit {
	return pageLimit{Next: min(firstLimit, most), Least: min(leastLimit, most), most: most, settled: true}
}

// Cut lowers the limit after a request for asked objects timed out or broke off after the time took.
func (l *pageLimit) Cut(asked int64, took time.Duration) {
	if l.settled {
		l.penalty, l.slow = min(max(2*l.penalty, 1), maxPenalty), 0
	}
	by := 1
	if took >= promptPage {
		// Halving alone would take seven time-outs from 500 objects of 100 KB to six, which 56 kbit/s carry in time.
		l.slow++
		by = l.slow
	}
	l.Next, l.cutAt, l.hold, l.settled = max(asked>>by, l.Least), asked, l.penalty, false
}

// Arrived sets the limit after a page of n objects has arrived. asked was the page's limit, took the duration of the
// request. meanSize is the mean size of the objects in bytes; 0 if unknown.
func (l *pageLimit) Arrived(asked int64, n int, meanSize int64, took time.Duration) {
	l.Next, l.settled = asked, true
	if int64(n) >= l.cutAt {
		l.cutAt, l.penalty, l.hold = 0, 0, 0
	}
	switch {
	case took >= promptPage:
	case l.hold > 0:
		l.hold--
	default:
		l.Next = min(2*asked, l.most)
	}
	if meanSize > 0 {
		l.Next = max(min(l.Next, pageBytes/meanSize), l.Least)
	}
}

const (
	// samples is how many objects of a page meanSize measures. Measuring all of them would cost 5 % of a cold start.
	samples = 64
	// meanSize stops measuring at enoughBytes if it has measured fewSamples objects.
	enoughBytes, fewSamples = 1 << 20, 8
)

// meanSize estimates the mean size of the encoded objects from evenly spread samples; 0 without objects.
func meanSize(items []runtime.Object) int64 {
	n := min(len(items), samples)
	var total int64
	for i := range n {
		total += encodedSize(items[i*len(items)/n])
		if total > enoughBytes && i+1 >= fewSamples {
			n = i + 1
			break
		}
	}
	if n == 0 {
		return 0
	}
	return total / int64(n)
}

func encodedSize(obj runtime.Object) int64 {
	switch o := obj.(type) {
	case interface{ Size() int }: // types with generated protobuf code have the method Size
		return int64(o.Size())
	case runtime.Unstructured:
		return jsonSize(o.UnstructuredContent())
	}
	raw, err := json.Marshal(obj)
	if err != nil {
		return 0 // the Sink reports objects that are not JSON objects
	}
	return int64(len(raw))
}

func jsonSize(v any) int64 {
	switch v := v.(type) {
	case string:
		return int64(len(v)) + 2
	case map[string]any:
		n := int64(2)
		for k, e := range v {
			n += int64(len(k)) + 4 + jsonSize(e)
		}
		return n
	case []any:
		n := int64(2)
		for _, e := range v {
			n += 1 + jsonSize(e)
		}
		return n
	}
	return 4 // numbers, true, false and null have about four bytes
}

// requestTimeout bounds a request that is not a watch, and the wait for a watch to be accepted. API servers give up
// after 60 s themselves. Requests that cannot be made smaller may take longer (patience).
const requestTimeout = 90 * time.Second

// maxPatience is the maximum of patience.Time. The largest object that etcd accepts by default, 1.5 MB, takes a third
// of that time over 56 kbit/s.
const maxPatience = 12 * time.Minute

// patience is the time-out of a request that cannot be made smaller: for the server's resourceVersion, for a single
// object, or for a page of the lowest limit. Over a slow link one large object takes longer than requestTimeout, and
// would be cut off again and again. The time-out only grows in a run: between two attempts at a large object, quick
// answers about other objects say nothing about the large object.
type patience struct {
	doublings int
}

// Time returns the time-out of the next request for a single object.
func (p *patience) Time() time.Duration {
	return min(requestTimeout<<p.doublings, maxPatience)
}

// Learn adapts the time-out to the result and the duration of a request for a single object. exhausted is true if more
// time would not help: an API server or gateway cut off the answer, as they do after a minute, or maxPatience was not
// enough.
func (p *patience) Learn(took time.Duration, err error) (exhausted bool) {
	if err == nil || errors.Is(err, ErrPutOff) {
		return false
	}
	if took >= p.Time() && p.Time() < maxPatience {
		p.doublings++
		return false
	}
	return took >= promptPage && isCut(err)
}

const (
	// silenceLimit is how long a watch may deliver nothing until a probe requests the server's resourceVersion. Servers
	// send a bookmark once a minute.
	silenceLimit = 150 * time.Second
	// drainTimeout is the timeoutSeconds of a watch that must receive a bookmark soon. The server sends the bookmark
	// about two seconds before the time-out.
	drainTimeout = 3 * time.Second
	// drainGrace is the time beyond drainTimeout that a server may ignore the time-out before its watch is silent.
	drainGrace = 30 * time.Second
	// maxSilence is the maximum time for which a watch may deliver nothing.
	maxSilence = 10 * time.Minute
)

// silence determines how long a watch may deliver nothing before it counts as dead. A large event on a slow link looks
// like a dead connection, since an event arrives only as a whole. If the watch is closed, the server sends the event to
// the next watch from its first byte. So the next watch from the same resourceVersion may be silent for longer.
type silence struct {
	// at is the resourceVersion of the last watch that was closed because it delivered nothing. doublings is how often
	// the permitted silence of a watch from that resourceVersion is doubled.
	at        string
	doublings int
}

// Limit returns how long a watch from rv may deliver nothing. draining is true if the watch has the short drainTimeout.
func (q *silence) Limit(draining bool, rv string) time.Duration {
	switch {
	case q.doublings > 0 && rv == q.at:
		return min(silenceLimit<<q.doublings, maxSilence)
	case draining:
		return drainTimeout + drainGrace
	}
	return silenceLimit
}

// Closed lets the next watch from rv be silent for longer, since the last one was closed for its silence.
func (q *silence) Closed(rv string) {
	if rv != q.at {
		q.at, q.doublings = rv, 0
	}
	if silenceLimit<<q.doublings < maxSilence {
		q.doublings++
	}
}

// healthyWatch is how long a watch must live to reset the back-off. A list within this time after another list waits.
const healthyWatch = 2 * time.Minute

// backoff counts failures in a row. The zero value is ready.
type backoff struct {
	failures int
}

// Next returns how long to wait: full jitter below an exponential ceiling, on top of the server's Retry-After. The
// jitter keeps a fleet with the same Retry-After from returning together.
func (b *backoff) Next(retryAfter time.Duration) time.Duration {
	d := limiter.Ceiling(b.failures)
	b.failures++
	return retryAfter + rand.N(d+1)
}

// Reset resets the count of failures, so that the next wait is short again.
func (b *backoff) Reset() { b.failures = 0 }
