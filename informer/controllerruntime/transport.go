package controllerruntime

import (
	"context"
	"errors"
	"net/http"
	"sync"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/util/flowcontrol"
)

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
