package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/serve/access"
)

// Forwarder forwards requests to an API server. The function Forward returns one.
type Forwarder struct {
	own   access.Authenticator
	proxy *httputil.ReverseProxy
}

// Forward returns a Forwarder to the API server of config. Requests carry the caller's own credentials, never config's.
// X-Forwarded-For carries the caller's address, for the audit log of the API server. A caller with a client
// certificate, or with credentials that the authenticator own recognizes, has none for the API server and is rejected
// with 403.
func Forward(config *rest.Config, own access.Authenticator) (*Forwarder, error) {
	anonymous := rest.AnonymousClientConfig(config)
	transport, err := rest.TransportFor(anonymous)
	if err != nil {
		return nil, fmt.Errorf("forward to the API server: %w", err)
	}
	anonymous.NextProtos = []string{"http/1.1"} // exec and other upgrades need HTTP/1.1
	upgrades, err := rest.TransportFor(anonymous)
	if err != nil {
		return nil, fmt.Errorf("forward to the API server: %w", err)
	}
	target, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("forward to the API server: %w", err)
	}
	proxy := &httputil.ReverseProxy{
		Transport:     transports{transport, upgrades},
		FlushInterval: -1,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: target.Scheme, Host: target.Host, Path: strings.TrimSuffix(target.Path, "/")})
			r.Out.Host = target.Host
			r.Out.Header["X-Forwarded-For"] = r.In.Header["X-Forwarded-For"] // the header of earlier proxies is kept
			r.SetXForwarded()
		},
		ModifyResponse: func(answer *http.Response) error {
			if answered, ok := answer.Request.Context().Value(answeredKey{}).(func(*http.Response)); ok {
				answered(answer)
			}
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if errors.Is(err, http.ErrAbortHandler) {
				panic(err)
			}
			cause := context.Cause(r.Context())
			fallback, ok := r.Context().Value(fallbackKey{}).(http.Handler)
			if ok && (cause == nil || errors.Is(cause, errUnreached)) {
				fallback.ServeHTTP(w, r)
				return
			}
			access.WriteError(w, r, forwardError(r.Context(), err))
		},
	}
	return &Forwarder{own: own, proxy: proxy}, nil
}

// ServeHTTP implements http.Handler.
func (f *Forwarder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !f.takes(r) {
		access.WriteError(w, r, statusError(http.StatusForbidden, "this goes to the API server, "+
			"which does not know the credentials of the request: use a token of the API server's, with the address and "+
			"the CA of this server"))
		return
	}
	f.proxy.ServeHTTP(w, r)
}

// fallbackKey is the context key of the handler that answers a forwarded request while the API server is unreachable.
type fallbackKey struct{}

func (f *Forwarder) serveOr(w http.ResponseWriter, r *http.Request, fallback http.Handler) {
	f.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), fallbackKey{}, fallback)))
}

// takes reports whether the request has the user's own credentials, which the API server might accept.
func (f *Forwarder) takes(r *http.Request) bool {
	_, known, _ := f.own.Authenticate(r)
	return !known && r.Header.Get("Authorization") != ""
}

// forward forwards the request to the API server. Watches, followed logs and upgrades count as long-running requests.
func (q *request) forward() error {
	query := q.r.URL.Query()
	lasts := q.r.Header.Get("Upgrade") != "" || strings.Contains(q.r.URL.Path, "/watch/")
	for _, name := range []string{"watch", "follow"} {
		value := query.Get(name)
		lasts = lasts || query.Has(name) && value != "false" && value != "0"
	}
	w, ctx := q.w, q.ctx
	if lasts {
		if err := access.LongRunning(q.r.Context()); err != nil {
			return err
		}
		w = deadlineWriter{w, q.writeDeadline}
	} else if q.writesTo() {
		ctx = context.WithValue(ctx, answeredKey{}, q.written)
	}
	q.Handler.options.Forward.ServeHTTP(w, q.r.WithContext(ctx))
	return nil
}

type transports struct{ others, upgrades http.RoundTripper }

func (t transports) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Header.Get("Upgrade") != "" {
		return t.upgrades.RoundTrip(r)
	}
	return t.others.RoundTrip(r)
}

func forwardError(ctx context.Context, err error) error {
	var known apierrors.APIStatus
	var tooLarge *http.MaxBytesError
	switch cause := context.Cause(ctx); {
	case errors.As(cause, &known):
		return cause
	case errors.As(err, &tooLarge):
		return apierrors.NewRequestEntityTooLargeError("the request's body is too large")
	}
	return apierrors.NewServiceUnavailable("the API server, which answers this, cannot be reached")
}

// writeHead is the maximum size, in bytes, of a write's response that is searched for a resourceVersion.
const writeHead = 64 << 10

// answeredKey is the context key of a function that receives the response to a forwarded write before the client.
type answeredKey struct{}

// errUnreached is the cause with which a forwarded read is canceled if the API server does not begin to answer in time.
var errUnreached = errors.New("the API server does not answer in time")

// forwardRead forwards a read to the API server. If the API server is unreachable, or does not begin to answer within
// freshFor, local answers from the mirrored objects. Further reads then do not wait for the user's earlier writes to
// the resource, because the mirror has the latest state available.
func (q *request) forwardRead(local func() error) (err error) {
	ctx, cancel := context.WithCancelCause(q.ctx)
	defer cancel(nil)
	slow := time.AfterFunc(freshFor, func() { cancel(errUnreached) })
	defer slow.Stop()
	ctx = context.WithValue(ctx, answeredKey{}, func(*http.Response) { slow.Stop() })
	warnings := q.w.Header().Values("Warning")
	q.w.Header().Del("Warning") // the API server sends its own warnings
	q.Handler.options.Forward.serveOr(q.w, q.r.WithContext(ctx), http.HandlerFunc(
		func(http.ResponseWriter, *http.Request) {
			q.writes.forget(newWriter(q.lease.user, q.path.GroupResource()))
			for _, warning := range warnings {
				q.w.Header().Add("Warning", warning)
			}
			err = local()
		}))
	return err
}

func (q *request) writesTo() bool {
	switch q.r.Method {
	case http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
	default:
		return false
	}
	if q.path.Resource == "" || q.r.URL.Query().Has("dryRun") {
		return false
	}
	switch connects, _, _ := strings.Cut(q.path.subresource, "/"); connects {
	case "attach", "exec", "portforward", "proxy":
		return false
	}
	known, err := q.catalog.all(q.ctx)
	return err != nil || known.mirrors(newWriter("", q.path.GroupResource()).resource)
}

// mirrors reports whether any version of a resource, as newWriter names it, is mirrored.
func (k *known) mirrors(r schema.GroupResource) bool {
	for gvr := range k.kinds {
		if newWriter("", gvr.GroupResource()).resource == r {
			return true
		}
	}
	for gvr := range k.expected {
		if newWriter("", gvr.GroupResource()).resource == r {
			return true
		}
	}
	return false
}

// written adds a forwarded write to the user's writes after the API server's response, so that the user's later reads
// wait for it. A 409 or 404 counts as a write, since it may show that the mirrored objects are stale. A 504 counts too,
// since the outcome is unknown.
func (q *request) written(answer *http.Response) {
	switch code := answer.StatusCode; {
	case code >= 200 && code < 300:
	case code == http.StatusConflict, code == http.StatusNotFound, code == http.StatusGatewayTimeout:
	default:
		return
	}
	rv := uint64(0)
	if q.r.Method != http.MethodDelete { // the response to a DELETE has no resourceVersion, or the previous one
		head, err := io.ReadAll(io.LimitReader(answer.Body, writeHead))
		if err == nil && len(head) < writeHead && answer.StatusCode < 300 {
			rv = writtenRV(head)
		}
		body := io.MultiReader(bytes.NewReader(head), answer.Body)
		answer.Body = struct {
			io.Reader
			io.Closer
		}{body, answer.Body}
	}
	q.writes.add(newWriter(q.lease.user, q.path.GroupResource()), q.path.namespace, rv, time.Now())
}

// writtenRV returns the resourceVersion of the object in the response to a write; 0 if the response has none. It also
// returns 0 if the write removed the last finalizer of a deleted object: kube-apiserver then responds with the object's
// previous state.
func writtenRV(body []byte) uint64 {
	var m metav1.PartialObjectMetadata
	if message, ok := bytes.CutPrefix(body, []byte(protobufMagic)); ok {
		var envelope runtime.Unknown
		if envelope.Unmarshal(message) != nil || m.Unmarshal(envelope.Raw) != nil {
			return 0
		}
	} else if json.Unmarshal(body, &m) != nil {
		return 0
	}
	if m.DeletionTimestamp != nil && len(m.Finalizers) == 0 {
		return 0
	}
	// ParseUint returns 0 for a resourceVersion that is not a number and so cannot be compared.
	rv, _ := strconv.ParseUint(m.ResourceVersion, 10, 64)
	return rv
}

const (
	// writesKept is the maximum number of writers (a user and a resource). A new writer replaces the oldest.
	writesKept = 1000
	// writeKept is how long the reads of a user wait for a write that was forwarded for the user. If the collection has
	// not received the write by then, responses carry a Warning with the collection's age.
	writeKept = time.Minute
)

// writes remembers the writes that were forwarded to the API server within the last minute, so that users read no state
// older than their own writes. It is safe for concurrent use.
type writes struct {
	mu sync.Mutex
	// last has each writer's latest writes. mu guards last.
	last map[writer]write
}

// writer identifies the forwarded writes of a user to one resource. The user "" stands for all users.
type writer struct {
	user     string
	resource schema.GroupResource
}

type write struct {
	// namespace is the namespace of the written objects; "" for several namespaces, and for cluster-scoped objects.
	namespace string
	// rv is the highest resourceVersion in the API server's responses; 0 if no response had one.
	rv uint64
	at time.Time
	// unknown is the time of the latest write without a known resourceVersion.
	unknown time.Time
}

// ended reports whether reads no longer wait for the write.
func (w write) ended(now time.Time) bool {
	return (w.rv == 0 || now.Sub(w.at) > writeKept) && !w.unknownAt(now)
}

// unknownAt reports whether the mirrored objects may still lack a write whose response had no resourceVersion.
func (w write) unknownAt(now time.Time) bool { return now.Sub(w.unknown) < freshFor }

// newWriter returns a writer. Events of both API groups count as one resource, and bindings as pods.
func newWriter(user string, r schema.GroupResource) writer {
	switch {
	case r == schema.GroupResource{Group: "events.k8s.io", Resource: "events"}:
		r.Group = ""
	case r == schema.GroupResource{Resource: "bindings"}: // a binding changes its pod
		r.Resource = "pods"
	}
	return writer{user, r}
}

// add remembers a write of a user to a resource. rv is the resourceVersion from the response; 0 if unknown.
func (s *writes) add(by writer, namespace string, rv uint64, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w, known := s.last[by]
	if known = known && !w.ended(now); !known {
		w = write{namespace: namespace}
		s.evictLocked(now)
	}
	if w.namespace != namespace {
		w.namespace = ""
	}
	switch {
	case rv == 0:
		w.unknown = now
	case rv > w.rv:
		w.rv, w.at = rv, now
	}
	if s.last == nil {
		s.last = map[writer]write{}
	}
	s.last[by] = w
}

// evictLocked makes space for a new writer: it drops writes for which reads no longer wait, or otherwise the oldest
// write, which the collection has most likely received.
func (s *writes) evictLocked(now time.Time) {
	if len(s.last) < writesKept {
		return
	}
	var oldest writer
	age := time.Duration(-1)
	for by, w := range s.last {
		if w.ended(now) {
			delete(s.last, by)
		} else if a := min(now.Sub(w.at), now.Sub(w.unknown)); a > age {
			oldest, age = by, a
		}
	}
	if len(s.last) >= writesKept {
		delete(s.last, oldest)
	}
}

// get returns the remembered writes of a user to a resource, if they concern the namespace; "" means all namespaces.
func (s *writes) get(by writer, namespace string, now time.Time) (w write, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w, ok = s.last[by]; ok && w.ended(now) {
		delete(s.last, by)
		ok = false
	}
	return w, ok && (namespace == "" || w.namespace == "" || namespace == w.namespace)
}

func (s *writes) forget(by writer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.last, by)
}

// receivesEvents reports whether the collection receives an event for every write in a namespace, and so reaches the
// write's resourceVersion at once. A collection with a selector may reach that resourceVersion only with a bookmark.
func receivesEvents(id entry.Identity, namespace string) bool {
	return id.LabelSelector == "" && id.FieldSelector == "" && (id.Namespace == "" || id.Namespace == namespace)
}

// readsLatest reports whether a read asks for the latest state: it has neither a resourceVersion nor a continue token.
func (q *request) readsLatest() bool {
	return q.r.URL.Query().Get("resourceVersion") == "" && q.options.token == nil
}

// behind reports whether the collection still lacks a write that was forwarded for the user. It waits for that write
// until freshFor after the write was made.
func (q *request) behind() (bool, error) {
	by := newWriter(q.lease.user, q.path.GroupResource())
	w, ok := q.writes.get(by, q.path.namespace, time.Now())
	if !ok {
		return false, nil
	}
	if w.unknownAt(time.Now()) {
		return true, nil
	}
	until := w.at.Add(freshFor)
	if !receivesEvents(q.collection.Identity, w.namespace) {
		until = w.at
	}
	ctx, cancel := context.WithDeadline(q.ctx, until)
	defer cancel()
	if awaitRV(ctx, q.collection, q.reader, w.rv) == nil {
		return false, nil // keep the entry: another collection of the resource may lack the write
	}
	return true, context.Cause(q.ctx)
}
