package serve

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/discovery"
	"github.com/larder-dev/larder/serve/access"
)

// Options are the options of New. The zero value serves everything but confidential collections to every client.
type Options struct {
	// Narrow answers requests that exceed the mirrored objects with the mirrored objects and a Warning. Default: 403.
	Narrow bool
	// Confidential serves Secrets and sealed collections. Default: they are absent.
	Confidential bool
	// Forward forwards the requests that the Handler cannot answer to the API server: writes, logs, and requests for
	// resources that are not mirrored. Discovery includes the resources of the API server for clients whose credentials
	// can be forwarded. Default: such requests fail.
	Forward *Forwarder
	// Authorizer decides which user may do what. The Handler must then be behind access.NewHandler, which authenticates
	// the users. Default: every client may read all served objects.
	Authorizer access.Authorizer
	// Snapshots answers GET and HEAD below /snapshot/. The user needs the right to the requested path (nonResourceURLs
	// in RBAC). The handler receives the path without that prefix, such as /latest. Default: such paths do not exist.
	Snapshots http.Handler
	// Metrics answers GET /metrics. The user needs the right to that path. Default: the path does not exist.
	Metrics http.Handler
	// Page answers GET and HEAD below /larder/, which package page uses. The user needs the right to that path.
	// Default: the path does not exist.
	Page http.Handler
	// Memory is the memory budget of responses. Default: a budget of DefaultMemory bytes.
	Memory *Memory
	// Notes returns the known defects of a collection, of which clients are warned, such as informer.Status.Notes.
	// Default: the notes of entry.Info, which do not say whether the API server allows the collection to be watched.
	Notes func(entry.Info) []entry.Note
}

// Handler serves a Source as a Kubernetes API. The function New returns one.
type Handler struct {
	source  Source
	options Options
	catalog catalog
	writes  writes

	// ctx ends all open requests. Close cancels it.
	ctx    context.Context
	cancel context.CancelCauseFunc

	mu     sync.Mutex
	closed bool // mu guards closed
	// open counts the running requests. Add is not called after closed is set.
	open sync.WaitGroup
}

// New returns a Handler that serves the Source s.
func New(s Source, o Options) (*Handler, error) {
	if o.Memory == nil {
		o.Memory = NewMemory(0)
	}
	if o.Notes == nil {
		o.Notes = func(info entry.Info) []entry.Note { return info.Notes(time.Now(), false) }
	}
	h := &Handler{source: s, options: o, catalog: catalog{source: s, gate: newGate(), confidential: o.Confidential,
		reviews: o.Authorizer != nil, now: time.Now}}
	h.ctx, h.cancel = context.WithCancelCause(context.Background())
	return h, nil
}

var errClosing = errors.New("the server is shutting down")

// Close ends all open watches and lists and waits for them. Requests that arrive later are rejected.
func (h *Handler) Close() error {
	h.cancel(errClosing)
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	h.open.Wait()
	return nil
}

// begin registers a request, for which the caller must call h.open.Done. It returns false if the Handler is closed.
func (h *Handler) begin() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.closed {
		h.open.Add(1)
	}
	return !h.closed
}

// request is one HTTP request for mirrored objects, with the values that are parsed and chosen while it is answered.
type request struct {
	*Handler
	// ctx is canceled when the client disconnects, and by Handler.Close.
	ctx context.Context
	w   http.ResponseWriter
	r   *http.Request

	writeDeadline *writeDeadline
	lease         memoryLease
	path          path
	options       *listOptions
	// deprecated is the Warning header for a deprecated version; "" for other versions.
	deprecated string
	format     format
	collection *collection
	reader     reader
	// offline is true if only the rules for an outage of the API server allow the request.
	offline bool
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !h.begin() {
		access.WriteError(w, r, apierrors.NewServiceUnavailable(errClosing.Error()))
		return
	}
	defer h.open.Done()
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	q := &request{Handler: h, ctx: ctx, w: w, r: r, writeDeadline: &writeDeadline{control: http.NewResponseController(w)}}
	defer q.writeDeadline.end()
	user, _ := access.UserFrom(ctx)
	q.lease = memoryLease{memory: h.options.Memory, user: user.Username}
	defer q.lease.release()
	defer context.AfterFunc(h.ctx, func() {
		cancel(errClosing)
		q.writeDeadline.shorten()
	})()
	w.Header().Set("Cache-Control", "no-cache, private")
	err := q.serve()
	if err == nil {
		return
	}
	var known apierrors.APIStatus
	switch cause := context.Cause(ctx); {
	case cause == nil || errors.As(err, &known):
	case errors.As(cause, &known):
		err = cause
	default:
		err = apierrors.NewServiceUnavailable(errClosing.Error())
	}
	access.WriteError(w, r, err)
}

func (q *request) serve() error {
	var ok bool
	reads := q.r.Method == http.MethodGet || q.r.Method == http.MethodHead
	if strings.HasPrefix(q.r.URL.Path, "//") {
		http.NotFound(q.w, q.r)
		return nil
	}
	if q.path, ok = parsePath(q.r.URL.Path); !ok || discovery.IsPath(q.r.URL.Path) {
		q.path = path{}
		return q.other(reads)
	}
	if q.isReview() {
		o := q.Handler.options
		access.Reviews{Authorizer: o.Authorizer, Forwards: o.Forward != nil}.ServeHTTP(q.w, q.r)
		return nil
	}
	known, err := q.catalog.all(q.ctx)
	if err != nil {
		return errRead(err)
	}
	k := known.kinds[q.path.GroupVersionResource]
	if k != nil {
		q.deprecated = k.deprecation().warning(known.release)
	}
	if id, expected := known.expected[q.path.GroupVersionResource]; k == nil && reads && expected &&
		q.path.subresource == "" {
		return q.notYet(id)
	}
	if k != nil && reads && q.path.subresource == "status" && k.collections[0].known && !k.hasStatus() {
		return errNoSuchPath()
	}
	if k == nil || !reads || q.path.subresource != "" && !(q.path.subresource == "status" && k.hasStatus()) {
		return q.unserved(k, reads)
	}
	if q.path.namespace != "" && !k.Namespaced || q.path.namespace == "" && q.path.name != "" && k.Namespaced {
		return errNoSuchPath()
	}
	if q.r.Method == http.MethodHead && k.collections[0].builtIn {
		return q.unserved(k, false)
	}
	q.warnOfDeprecation()
	if wrong := content.IsPathSegmentName(q.path.name); len(wrong) > 0 {
		return apierrors.NewBadRequest(fmt.Sprintf("Name parameter invalid: %q: %s", q.path.name, strings.Join(wrong, ";")))
	}
	if q.options = everything(); q.path.name == "" {
		if q.options, err = parseListOptions(q.r.URL.Query()); err != nil {
			return err
		}
	}
	watching := q.path.name == "" && q.options.Watch
	if err := q.reaches(k, watching); err != nil {
		q.w.Header().Del("Warning") // kube-apiserver warns only if a request reaches the kind's handler
		return err
	}
	return q.answer(k, watching)
}

// reaches returns the error of requests that kube-apiserver rejects before the handler of their kind sees them: an
// invalid timeout, a missing right, or an unacceptable Accept header.
func (q *request) reaches(k *kind, watching bool) error {
	if err := checkTimeout(q.r.URL.Query()); err != nil && !watching {
		return err
	}
	err := q.allowed(q.verb())
	if err == nil && k.collections[0].builtIn {
		err = routed(q.r, q.path.name == "")
	}
	return err
}

// notYet answers a request for a mirrored collection that is not in the store yet: 429, or the error for an invalid
// query or a missing right.
func (q *request) notYet(id entry.Identity) (err error) {
	if q.options = everything(); q.path.name == "" {
		if q.options, err = parseListOptions(q.r.URL.Query()); err != nil {
			return err
		}
	}
	if err := q.allowed(q.verb()); err != nil {
		return err
	}
	return errNotListed(id)
}

func (q *request) verb() string {
	switch {
	case q.path.name != "":
		return "get"
	case q.options.Watch:
		return "watch"
	}
	return "list"
}

func (q *request) answer(k *kind, watching bool) (err error) {
	a := negotiation{known: k.collections[0].known, newer: k.collections[0].Attributes.NewerServer(),
		list:     q.path.name == "",
		watching: watching}
	if q.format, err = negotiate(q.r, a); err != nil {
		return err
	}
	if err := k.checkFields(q.options.fields); err != nil {
		return err
	}
	switch err := q.choose(k); {
	case errors.Is(err, errForward):
		q.w.Header().Del("Warning") // the API server sends its own warnings
		return q.forward()
	case err != nil:
		return err
	}
	if q.path.name == "" {
		if err := q.format.includes(q.r.URL.Query().Get("includeObject")); err != nil {
			return err
		}
	}
	if !watching {
		return q.read()
	}
	q.warnOfNotes()
	if _, no := q.reader.(withoutHistory); no {
		return apierrors.NewMethodNotSupported(k.GroupResource(), "watch")
	}
	if err := access.LongRunning(q.r.Context()); err != nil {
		return err
	}
	return q.watch()
}

func (q *request) read() error {
	local := func() error {
		q.warnOfNotes()
		if q.path.name != "" {
			return q.get()
		}
		return q.list()
	}
	if f := q.Handler.options.Forward; f != nil && q.readsLatest() && f.takes(q.r) {
		if behind, err := q.behind(); err != nil {
			return err
		} else if behind {
			return q.forwardRead(local)
		}
	}
	return local()
}

var errForward = errors.New("this is not mirrored, and forwarded")

// choose finds the collection that answers the request and opens its reader. It fails if the requested objects are not
// mirrored or not listed yet, and with errForward if the request must be forwarded.
func (q *request) choose(k *kind) (err error) {
	c, exact := k.find(q.path, q.options, q.format.form)
	if q.Handler.options.Forward != nil && (c == nil || !exact && !q.Handler.options.Narrow) {
		return errForward
	}
	if c == nil && q.format.form != metadata && onlyMetadata(k) {
		return statusError(http.StatusNotAcceptable,
			"only the metadata of %s are mirrored: ask for PartialObjectMetadata", k.GroupResource())
	}
	switch {
	case c == nil:
		return q.tooWide(k, k.scope(), "")
	case exact || q.path.name != "":
	case !q.Handler.options.Narrow:
		return q.tooWide(k, c.scope(), ", or start the server with --narrow")
	default:
		q.warn("larder: of %s only %s are mirrored", k.GroupResource(), c.scope())
	}
	if q.reader, err = q.source.open(q.ctx, c.Identity); err != nil {
		return errRead(err)
	}
	now := *c // the Info of the cached collection may be a second old
	if now.Info, err = q.reader.Info(q.ctx); err != nil {
		return errRead(err)
	}
	q.collection = &now
	if !now.Complete && q.reader.History() == nil {
		return errNotListed(c.Identity)
	}
	return nil
}

func onlyMetadata(k *kind) bool {
	for _, c := range k.collections {
		if c.Identity.Representation != entry.Metadata {
			return false
		}
	}
	return true
}

// unserved answers requests that the mirrored objects cannot answer: requests for other resources, and requests that do
// not read. With Options.Forward it forwards the request, which the API server then authorizes.
func (q *request) unserved(k *kind, reads bool) error {
	if q.Handler.options.Forward != nil {
		return q.forward()
	}
	served := "objects can be read here, and not be changed"
	if s := q.path.subresource; s != "" && s != "status" && s != "scale" {
		served = "objects can be read here, and there is no " + s
	}
	if reads {
		if err := q.allowed("get"); err != nil {
			return err
		}
	}
	switch {
	case k == nil && reads:
		return errNotMirrored(q.path.GroupVersionResource)
	case k != nil && !k.collections[0].builtIn: // kube-apiserver has one handler for all requests for a custom resource
		q.warnOfDeprecation()
	}
	return errReadOnly(served)
}

const snapshots = "/snapshot"

// pages is the path prefix of Options.Page. Requests below compare are long-running: they read two whole files.
const (
	pages   = "/larder/"
	compare = pages + "compare"
)

// requestKey is the context key under which discovery handlers find the *request, to acquire memory for a schema.
type requestKey struct{}

func holdSchema(ctx context.Context, bytes int) error {
	q, ok := ctx.Value(requestKey{}).(*request)
	if !ok {
		return nil
	}
	return q.lease.resize(ctx, documentMemory+int64(bytes), memoryWait)
}

func (q *request) other(reads bool) error {
	if reads {
		if err := q.allowed("get"); err != nil {
			return err
		}
	}
	isDiscovery := discovery.IsPath(q.r.URL.Path)
	if isDiscovery && !reads && q.Handler.options.Forward == nil && !strings.HasPrefix(q.r.URL.Path, "/apis") &&
		!strings.HasPrefix(q.r.URL.Path, "/openapi") {
		return errReadOnly("discovery can only be read")
	}
	switch {
	case isDiscovery:
		if err := q.lease.resize(q.ctx, documentMemory, memoryWait); err != nil {
			return err
		}
		known, err := q.catalog.all(q.ctx)
		if err != nil {
			return errRead(err)
		}
		r := q.r.WithContext(context.WithValue(q.ctx, requestKey{}, q))
		switch f := q.Handler.options.Forward; {
		case f == nil || !f.takes(r):
			known.discovery.ServeHTTP(q.w, r)
		case known.forwarded.Complete(r.URL.Path):
			known.forwarded.ServeHTTP(q.w, r)
		default:
			f.serveOr(q.w, r, known.forwarded)
		}
		return nil
	case reads && (q.r.URL.Path == "/healthz" || q.r.URL.Path == "/livez" || q.r.URL.Path == "/readyz"):
		q.w.Header().Set("X-Content-Type-Options", "nosniff")
		_, _ = q.w.Write([]byte("ok"))
		return nil
	case reads && q.Handler.options.Snapshots != nil && strings.HasPrefix(q.r.URL.Path, snapshots+"/"):
		if err := access.LongRunning(q.r.Context()); err != nil {
			return err
		}
		http.StripPrefix(snapshots, q.Handler.options.Snapshots).ServeHTTP(deadlineWriter{q.w, q.writeDeadline}, q.r)
		return nil
	case reads && q.Handler.options.Page != nil && strings.HasPrefix(q.r.URL.Path, pages):
		if err := q.lease.resize(q.ctx, documentMemory, memoryWait); err != nil {
			return err
		}
		w := http.ResponseWriter(q.w)
		if q.r.URL.Path == compare || strings.HasPrefix(q.r.URL.Path, compare+"/") {
			if err := access.LongRunning(q.r.Context()); err != nil {
				return err
			}
			w = deadlineWriter{q.w, q.writeDeadline}
		}
		q.Handler.options.Page.ServeHTTP(w, q.r.WithContext(q.ctx))
		return nil
	case reads && q.isMetrics():
		q.Handler.options.Metrics.ServeHTTP(q.w, q.r)
		return nil
	case q.Handler.options.Forward != nil:
		return q.forward()
	}
	http.NotFound(q.w, q.r)
	return nil
}

// isMetrics reports whether the request is for /metrics and Options.Metrics is set. This request is not forwarded, even
// with Options.Forward: Prometheus scrapes the API server's metrics at the API server itself.
func (q *request) isMetrics() bool {
	return q.Handler.options.Metrics != nil && q.r.URL.Path == "/metrics"
}
