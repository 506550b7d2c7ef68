package fakeapi

import (
	"net/http"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Counts are requests served since the start, or since ResetCounts.
type Counts struct {
	// Lists counts every page; Probes and Compares are not among them.
	Lists, Probes, Compares, Watches, Gets, Discovery, Writes int
	// ListedObjects and SentEvents (without bookmarks and errors) count what was sent.
	ListedObjects, SentEvents int
	// BytesSent on the wire, headers included.
	BytesSent int64
}

// requestLog is what was asked and answered.
type requestLog struct {
	mu     sync.Mutex // guards what follows
	byKind map[schema.GroupVersionResource]*counter
	log    []Request
}

// counter counts for one resource; discovery, and requests for unknown resources, count under the empty one.
type counter struct {
	counts Counts
	bytes  *atomic.Int64
}

// Counts returns the counters for one resource, or for all of them with the empty one. A list with limit=1 and no
// continue token is a probe; one that asks for a time-out, which only an informer's comparison by metadata at a start
// does (informer.Options.ListMetadata), is a compare.
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

// ResetCounts sets every counter to zero, and forgets the request log.
func (l *requestLog) ResetCounts() {
	l.mu.Lock()
	defer l.mu.Unlock()
	// Counters stay the same, since open connections write to their bytes.
	for _, one := range l.byKind {
		one.counts = Counts{}
		one.bytes.Store(0)
	}
	l.log = nil
}

// maxRequests bounds the request log.
const maxRequests = 100_000

// Request is one line of the request log.
type Request struct {
	// Verb as in Fault, or "deletecollection" or "discovery"; Resource is empty for discovery.
	Verb, Resource string
	// Path and Query are those of the request line.
	Path  string
	Query url.Values
	// UserAgent is what the client called itself.
	UserAgent string
}

// Requests returns a line per request served since ResetCounts, or the newest 50,000 to 100,000 of
// them: verb, path and query.
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

// Log returns what Requests returns, in parts.
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

// request counts a request, and returns where the bytes of its answer are to be counted.
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
