package fakeapi

import (
	"net/http"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Counts are the numbers of requests served since the start, or since ResetCounts.
type Counts struct {
	// Lists is the number of list pages. Lists with limit=1 (Probes) and lists with a timeout (Compares) are counted
	// separately.
	Lists, Probes, Compares, Watches, Gets, Discovery, Writes int
	ListedObjects, SentEvents                                 int
	BytesSent                                                 int64
}

type requestLog struct {
	mu     sync.Mutex // mu guards all fields below
	byKind map[schema.GroupVersionResource]*counter
	log    []Request
}

// counter holds the counts of one resource. The empty resource has the counts of discovery, and of requests for unknown
// resources.
type counter struct {
	counts Counts
	bytes  *atomic.Int64
}

// Counts returns the counts of one resource, or of all resources if gvr is empty. A list with limit=1 and no continue
// token is a probe. A list with a timeout is a compare: only an informer's comparison by metadata at a start has a
// timeout (informer.Options.ListMetadata).
func (l *requestLog) Counts(gvr schema.GroupVersionResource) Counts {
	l.mu.Lock()
	defer l.mu.Unlock()
	var sum Counts
	for of, one := range l.byKind {
		if gvr.Empty() || gvr == of {
			sum.add(one.counts)
			sum.BytesSent += one.bytes.Load()
		}
	}
	return sum
}

func (a *Counts) add(b Counts) {
	a.Lists += b.Lists
	a.Probes += b.Probes
	a.Compares += b.Compares
	a.Watches += b.Watches
	a.Gets += b.Gets
	a.Discovery += b.Discovery
	a.Writes += b.Writes
	a.ListedObjects += b.ListedObjects
	a.SentEvents += b.SentEvents
}

func (l *requestLog) ResetCounts() {
	l.mu.Lock()
	defer l.mu.Unlock()
	// The counters stay in the map, because open connections hold pointers to their byte counts.
	for _, one := range l.byKind {
		one.counts = Counts{}
		one.bytes.Store(0)
	}
	l.log = nil
}

// maxRequests is the length of the request log at which the older half is dropped.
const maxRequests = 100_000

type Request struct {
	// Verb is a verb of Fault, "deletecollection" or "discovery". Resource is empty for discovery.
	Verb, Resource string
	Path           string
	Query          url.Values
	UserAgent      string
}

// Requests returns a line per request served since ResetCounts: verb, path and query. Of more than 100,000 requests,
// only the newest 50,000 to 100,000 are kept.
func (l *requestLog) Requests() []string {
	var lines []string
	for _, r := range l.Log() {
		line := r.Verb + " " + r.Path
		if len(r.Query) > 0 {
			line += "?" + r.Query.Encode()
		}
		lines = append(lines, line)
	}
	return lines
}

// Log returns the requests of Requests as structs.
func (l *requestLog) Log() []Request {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.log)
}

func (l *requestLog) ofLocked(gvr schema.GroupVersionResource) *counter {
	if l.byKind == nil {
		l.byKind = map[schema.GroupVersionResource]*counter{}
	}
	one := l.byKind[gvr]
	if one == nil {
		one = &counter{bytes: &atomic.Int64{}}
		l.byKind[gvr] = one
	}
	return one
}

// request counts a request, and returns the counter for the bytes of its answer.
func (l *requestLog) request(gvr schema.GroupVersionResource, verb string, r *http.Request) *atomic.Int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	one := l.ofLocked(gvr)
	switch verb {
	case verbList:
		one.counts.Lists++
	case verbProbe:
		one.counts.Probes++
	case verbCompare:
		one.counts.Compares++
	case verbWatch:
		one.counts.Watches++
	case verbGet:
		one.counts.Gets++
	case verbDiscovery:
		one.counts.Discovery++
	default:
		one.counts.Writes++
	}
	if len(l.log) >= maxRequests {
		l.log = slices.Clone(l.log[maxRequests/2:])
	}
	l.log = append(l.log, Request{
		Verb: verb, Resource: gvr.Resource, Path: r.URL.Path, Query: r.URL.Query(), UserAgent: r.UserAgent(),
	})
	return one.bytes
}

func (l *requestLog) listed(gvr schema.GroupVersionResource, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ofLocked(gvr).counts.ListedObjects += n
}

func (l *requestLog) sentEvents(gvr schema.GroupVersionResource, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ofLocked(gvr).counts.SentEvents += n
}
