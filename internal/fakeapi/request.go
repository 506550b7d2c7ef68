package fakeapi

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

type request struct {
	w http.ResponseWriter
	r *http.Request

	kind      *kind
	namespace string
	name      string
	verb      string
	options   listOptions
	repr      representation

	fault    *activeFault
	stopping <-chan struct{}
	// hijacked is true if the handler has taken the connection from net/http.
	hijacked bool
}

// Values of Fault.Verb and of the verb in the request log.
const (
	verbList       = "list"
	verbProbe      = "probe"
	verbCompare    = "compare"
	verbWatch      = "watch"
	verbGet        = "get"
	verbCreate     = "create"
	verbUpdate     = "update"
	verbPatch      = "patch"
	verbDelete     = "delete"
	verbCollection = "deletecollection"
	verbDiscovery  = "discovery"
)

func (s *Server) handler(stopping <-chan struct{}, conns *connections) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
		gv, rest, ok := groupVersionOf(parts)
		q := &request{w: w, r: r, stopping: stopping}
		if ok && !s.available(gv) {
			s.requestLog.request(schema.GroupVersionResource{}, verbDiscovery, r)
			writeError(w, errAway())
			return
		}
		if !ok || len(rest) == 0 {
			s.serveDiscovery(q, parts)
		} else if err := s.parse(q, gv, rest); err != nil {
			s.countRefused(q)
			writeError(w, err)
			return
		} else {
			s.serveResource(q)
		}
		if q.hijacked {
			conns.hijacked(connOf(r))
		}
	})
}

// countRefused counts a request that could not be parsed, for its resource and verb. If these are unknown, it counts
// the request as discovery.
func (s *Server) countRefused(q *request) {
	if q.kind == nil || q.verb == "" {
		s.requestLog.request(schema.GroupVersionResource{}, verbDiscovery, q.r)
		return
	}
	s.requestLog.request(q.kind.GroupVersionResource, q.verb, q.r)
}

func groupVersionOf(parts []string) (gv schema.GroupVersion, rest []string, ok bool) {
	switch {
	case len(parts) >= 2 && parts[0] == "api":
		return schema.GroupVersion{Version: parts[1]}, parts[2:], true
	case len(parts) >= 3 && parts[0] == "apis":
		return schema.GroupVersion{Group: parts[1], Version: parts[2]}, parts[3:], true
	}
	return gv, nil, false
}

func (s *Server) parse(q *request, gv schema.GroupVersion, rest []string) error {
	if rest[0] == "namespaces" && len(rest) > 2 && s.kinds[gv.WithResource(rest[2])] != nil {
		q.namespace, rest = rest[1], rest[2:]
	}
	q.kind = s.kinds[gv.WithResource(rest[0])]
	if q.kind == nil || !s.serves(q.kind.GroupVersionResource) || len(rest) > 2 ||
		q.namespace != "" && !q.kind.Namespaced {
		return errNoSuchPath()
	}
	if len(rest) > 1 {
		q.name = rest[1]
	}
	options, err := parseListOptions(q.r.URL.Query(), q.kind, gates{s.release.watchList(), s.sharding})
	q.options = options
	q.verb = verbOf(q)
	if err != nil {
		return err
	}
	if q.verb == "" {
		return apierrors.NewMethodNotSupported(q.kind.GroupResource(), q.r.Method)
	}
	q.repr, err = negotiate(q.r.Header.Get("Accept"), q.kind)
	return err
}

func verbOf(q *request) string {
	switch {
	case q.r.Method == http.MethodGet && q.options.Watch:
		return verbWatch
	case q.r.Method == http.MethodGet && q.name != "":
		return verbGet
	case q.r.Method == http.MethodGet && q.options.Continue == "" && q.options.TimeoutSeconds != nil:
		return verbCompare
	case q.r.Method == http.MethodGet && q.options.Limit == 1 && q.options.Continue == "":
		return verbProbe
	case q.r.Method == http.MethodGet:
		return verbList
	case q.r.Method == http.MethodPost && q.name == "":
		return verbCreate
	case q.r.Method == http.MethodPut && q.name != "":
		return verbUpdate
	case q.r.Method == http.MethodPatch && q.name != "":
		return verbPatch
	case q.r.Method == http.MethodDelete && q.name != "":
		return verbDelete
	case q.r.Method == http.MethodDelete:
		return verbCollection
	}
	return ""
}

func (s *Server) serveResource(q *request) {
	counter := s.requestLog.request(q.kind.GroupVersionResource, q.verb, q.r)
	if conn := connOf(q.r); conn != nil {
		conn.counter.Store(counter)
	}
	if q.fault = s.faults.take(q.verb, q.kind.GroupVersionResource.Resource); q.fault != nil && q.fault.answer(q) {
		return
	}
	var err error
	switch q.verb {
	case verbList, verbProbe, verbCompare:
		err = s.serveList(q)
	case verbWatch:
		err = s.serveWatch(q)
	case verbGet:
		err = s.serveGet(q)
	default:
		err = s.serveWrite(q)
	}
	if err != nil && !q.hijacked {
		writeError(q.w, err)
	}
}

func (s *Server) serveGet(q *request) error {
	o := s.get(q.kind, q.namespace, q.name)
	if o == nil {
		return apierrors.NewNotFound(q.kind.GroupResource(), q.name)
	}
	return q.writeObject(http.StatusOK, o)
}

func (q *request) writeObject(code int, o *object) error {
	body, err := o.standalone(q.repr)
	if err != nil {
		return err
	}
	q.w.Header().Set("Content-Type", q.repr.contentType())
	q.w.WriteHeader(code)
	_, _ = q.w.Write(body)
	return nil
}

func errNoSuchPath() error {
	return newStatus(http.StatusNotFound, "the server could not find the requested resource")
}

func statusBody(status metav1.Status, r representation) ([]byte, error) {
	if !r.protobuf() {
		return json.Marshal(status)
	}
	raw, err := status.Marshal()
	if err != nil {
		return nil, err
	}
	return appendEnvelope(nil, "v1", "Status", raw), nil
}

func writeError(w http.ResponseWriter, err error) {
	status := *statusOf(err)
	if status.Details != nil && status.Details.RetryAfterSeconds > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(status.Details.RetryAfterSeconds)))
	}
	writeJSON(w, int(status.Code), status)
}

func writeJSON(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", contentJSON)
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(v)
}

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

// Request is an entry of the request log.
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
