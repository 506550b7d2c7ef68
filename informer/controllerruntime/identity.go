package controllerruntime

import (
	"context"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/larder-dev/larder/entry"
)

const (
	paramLabelSelector = "labelSelector"
	paramFieldSelector = "fieldSelector"
	paramShardSelector = "shardSelector"
)

// indifferent lists the query parameters that do not change which objects a complete list contains.
var indifferent = []string{"allowWatchBookmarks", "limit", "resourceVersion", "resourceVersionMatch", "timeout",
	"timeoutSeconds"}

// identify returns the identity of the collection that lw lists, and the Accept header of its request. It makes lw's
// list request, which is captured and not sent, and parses it. base is the path prefix of the API server, without a
// trailing slash. Every error wraps ErrIdentity.
func identify(
	lw cache.ListerWatcher, example runtime.Object, base string,
) (id entry.Identity, accept string, err error) {
	request, err := record(lw)
	if err != nil {
		return id, "", fmt.Errorf("%w: %w", ErrIdentity, err)
	}
	id, err = parse(request, base, representationOf(example))
	if err != nil {
		return entry.Identity{}, "", fmt.Errorf("%w from %s %s: %w", ErrIdentity, request.Method, request.URL.RequestURI(),
			err)
	}
	return id, strings.Join(request.Header.Values("Accept"), ","), nil
}

// record returns the one request that lw's list would send.
func record(lw cache.ListerWatcher) (*http.Request, error) {
	contextual, ok := lw.(cache.ListerWatcherWithContext)
	if plain, isPlain := lw.(*cache.ListWatch); isPlain && plain.ListWithContextFunc == nil {
		ok = false
	}
	if !ok {
		return nil, fmt.Errorf("its ListerWatcher (%T) takes no context, so its list request cannot be recorded", lw)
	}
	ctx, recording := withRecording(context.Background())
	_, err := contextual.ListWithContext(ctx, metav1.ListOptions{})
	switch requests := recording.taken(); {
	case len(requests) == 0 && err != nil:
		return nil, fmt.Errorf("its ListerWatcher sent no request through the cache's HTTP client: %w", err)
	case len(requests) == 0:
		return nil, errors.New("its ListerWatcher sent no request through the cache's HTTP client, but has an answer")
	case len(requests) > 1:
		return nil, fmt.Errorf("its ListerWatcher sent %d requests for one list", len(requests))
	case err == nil:
		return nil, errors.New("its ListerWatcher returned a list although its request was not sent: it has another source")
	case !errors.Is(err, errRecorded):
		return nil, fmt.Errorf("its ListerWatcher ignores the error of its request, or hides the reason: %w", err)
	default:
		return requests[0], nil
	}
}

// watchesBookmarks reports whether lw's watches request bookmarks. It captures the watch request without sending it;
// known is false if lw makes no request, or several.
func watchesBookmarks(lw cache.ListerWatcher) (bookmarks, known bool) {
	ctx, recording := withRecording(context.Background())
	w, err := cache.ToListerWatcherWithContext(lw).WatchWithContext(ctx, metav1.ListOptions{AllowWatchBookmarks: true})
	if err == nil {
		w.Stop()
	}
	sent := recording.taken()
	if len(sent) != 1 {
		return false, false
	}
	return sent[0].URL.Query().Get("allowWatchBookmarks") == "true", true
}

// parse returns the identity of a list request. expected is the representation of the informer's objects.
func parse(request *http.Request, base string, expected entry.Representation) (entry.Identity, error) {
	if request.Method != http.MethodGet {
		return entry.Identity{}, errors.New("a list is a GET")
	}
	id, err := parsePath(request.URL.Path, base)
	if err != nil {
		return id, err
	}
	if err := parseQuery(request.URL.Query(), &id); err != nil {
		return id, err
	}
	metadata, err := parseAccept(request.Header.Values("Accept"))
	switch {
	case err != nil:
		return id, err
	case metadata && expected != entry.Metadata:
		return id, fmt.Errorf("it asks for metadata, where the informer's objects are %s", expected)
	case !metadata && expected == entry.Metadata:
		return id, errors.New("it asks for whole objects, where the informer's are metadata")
	}
	id.Representation = expected
	return id.Canonical()
}

// parsePath parses /api/VERSION/… or /apis/GROUP/VERSION/…, where … is RESOURCE or namespaces/NAMESPACE/RESOURCE.
func parsePath(path, base string) (id entry.Identity, err error) {
	rest, ok := strings.CutPrefix(path, base+"/")
	if !ok {
		return id, fmt.Errorf("the path is not below the API server's, %s/", base)
	}
	parts := strings.Split(rest, "/")
	if slices.Contains(parts, "") {
		return id, errors.New("the path has an empty segment")
	}
	var gv schema.GroupVersion
	switch {
	case parts[0] == "api" && len(parts) > 2:
		gv, parts = schema.GroupVersion{Version: parts[1]}, parts[2:]
	case parts[0] == "apis" && len(parts) > 3:
		gv, parts = schema.GroupVersion{Group: parts[1], Version: parts[2]}, parts[3:]
	default:
		return id, errors.New("the path names no resource below /api/VERSION or /apis/GROUP/VERSION")
	}
	if len(parts) == 3 && parts[0] == "namespaces" {
		id.Namespace, parts = parts[1], parts[2:]
	}
	if len(parts) != 1 {
		return id, errors.New("the path is not that of a list")
	}
	id.GroupVersionResource = gv.WithResource(parts[0])
	return id, nil
}

// parseQuery sets the selectors of id. It fails if another parameter could change which objects are listed.
func parseQuery(query url.Values, id *entry.Identity) error {
	selectors := map[string]*string{
		paramLabelSelector: &id.LabelSelector,
		paramFieldSelector: &id.FieldSelector,
		paramShardSelector: &id.ShardSelector,
	}
	for name, values := range query {
		switch to := selectors[name]; {
		case len(values) != 1:
			return fmt.Errorf("the parameter %s is there %d times", name, len(values))
		case to != nil:
			*to = values[0]
		case !slices.Contains(indifferent, name):
			return fmt.Errorf("the parameter %s may change what is listed", name)
		}
	}
	return nil
}

// parseAccept reports whether Accept headers request metadata. It fails if they request neither that nor whole objects.
func parseAccept(headers []string) (metadata bool, err error) {
	for _, header := range headers {
		for clause := range strings.SplitSeq(header, ",") {
			_, params, err := mime.ParseMediaType(strings.TrimSpace(clause))
			if err != nil {
				return false, fmt.Errorf("the Accept header %q cannot be read: %w", header, err)
			}
			switch as := params["as"]; as {
			case "":
			case "PartialObjectMetadata", "PartialObjectMetadataList":
				metadata = true
			default:
				return false, fmt.Errorf("it asks for a %s instead of objects", as)
			}
		}
	}
	return metadata, nil
}

func representationOf(example runtime.Object) entry.Representation {
	switch example.(type) {
	case runtime.Unstructured:
		return entry.Unstructured
	case *metav1.PartialObjectMetadata, *metav1.PartialObjectMetadataList:
		return entry.Metadata
	}
	return entry.Typed
}

// errRecorded is the error of a request that was captured instead of sent. Clients of client-go do not retry after it.
var errRecorded = errors.New("the request was recorded, not sent")

// recording collects the requests that are made with a context of withRecording, and that are not sent.
type recording struct {
	mu       sync.Mutex
	requests []*http.Request // mu guards requests
}

type (
	recordingKey struct{}
	selectionKey struct{}
)

func withRecording(ctx context.Context) (context.Context, *recording) {
	r := &recording{}
	return context.WithValue(ctx, recordingKey{}, r), r
}

func recordingOf(ctx context.Context) *recording {
	r, _ := ctx.Value(recordingKey{}).(*recording)
	return r
}

func (r *recording) add(request *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests = append(r.requests, request)
}

func (r *recording) taken() []*http.Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.requests
}

// withSelection returns a context whose list requests get fieldSelector in addition to their own field selector.
func withSelection(ctx context.Context, fieldSelector string) context.Context {
	return context.WithValue(ctx, selectionKey{}, fieldSelector)
}

// transport is the outermost round tripper of the cache's HTTP client. It answers requests of withRecording with
// errRecorded, and adds the field selector of withSelection to a request.
type transport struct {
	next http.RoundTripper
}

func (t transport) RoundTrip(request *http.Request) (*http.Response, error) {
	if r := recordingOf(request.Context()); r != nil {
		if request.Body != nil {
			_ = request.Body.Close() // http.RoundTripper requires that RoundTrip closes the body
		}
		r.add(request)
		return nil, errRecorded
	}
	if selector, _ := request.Context().Value(selectionKey{}).(string); selector != "" {
		narrowed, err := narrow(request, selector)
		if err != nil {
			return nil, err
		}
		request = narrowed
	}
	return t.next.RoundTrip(request)
}

func (t transport) CloseIdleConnections() {
	if c, ok := t.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// WrappedRoundTripper implements RoundTripperWrapper of k8s.io/apimachinery/pkg/util/net.
func (t transport) WrappedRoundTripper() http.RoundTripper { return t.next }

// narrow returns the request with selector added to its own field selector. It fails if one of the two is invalid.
func narrow(request *http.Request, selector string) (*http.Request, error) {
	query := request.URL.Query()
	own := query.Get(paramFieldSelector)
	if own == selector {
		return request, nil
	}
	both := selector
	if own != "" {
		a, err := fields.ParseSelector(own)
		if err != nil {
			return nil, err
		}
		b, err := fields.ParseSelector(selector)
		if err != nil {
			return nil, err
		}
		both = fields.AndSelectors(a, b).String()
	}
	query.Set(paramFieldSelector, both)
	narrowed := request.Clone(request.Context())
	narrowed.URL.RawQuery = query.Encode()
	return narrowed, nil
}

// limiter is the rate limiter of the user's config. Captured requests do not wait for it, since a limiter that several
// clients share may have no tokens left.
type limiter struct {
	flowcontrol.RateLimiter
}

func (l limiter) Wait(ctx context.Context) error {
	if recordingOf(ctx) != nil {
		return nil
	}
	return l.RateLimiter.Wait(ctx)
}
