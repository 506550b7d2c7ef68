package controllerruntime

import (
	"context"
	"errors"
	"net/http"
	"sync"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/util/flowcontrol"
)

// errRecorded is what a request gets that was recorded instead of being sent. No client of client-go repeats it.
var errRecorded = errors.New("the request was recorded, not sent")

// recording collects the requests made with its context.
type recording struct {
	mu       sync.Mutex
	requests []*http.Request // guarded by mu
}

type (
	recordingKey struct{}
	selectionKey struct{}
)

// withRecording returns a context whose requests are recorded and answered with errRecorded.
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

// withSelection returns a context whose requests select by a field selector besides what they select by themselves.
func withSelection(ctx context.Context, fieldSelector string) context.Context {
	return context.WithValue(ctx, selectionKey{}, fieldSelector)
}

// transport is the outermost round tripper of the cache's HTTP client. Requests whose context carries nothing of ours
// pass it untouched.
type transport struct {
	next http.RoundTripper
}

// RoundTrip records the request, or narrows it, as its context says, or sends it.
func (t transport) RoundTrip(request *http.Request) (*http.Response, error) {
	if r := recordingOf(request.Context()); r != nil {
		if request.Body != nil {
			_ = request.Body.Close() // a round tripper must, and nothing was read
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

// CloseIdleConnections is http.Client's.
func (t transport) CloseIdleConnections() {
	if c, ok := t.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// WrappedRoundTripper lets k8s.io/apimachinery/pkg/util/net find what is below.
func (t transport) WrappedRoundTripper() http.RoundTripper { return t.next }

// narrow returns a copy of a list request that selects by selector too.
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

// limiter lets requests pass that are not sent: a limiter that the user shares between clients may be exhausted.
type limiter struct {
	flowcontrol.RateLimiter
}

// Wait is flowcontrol.RateLimiter's.
func (l limiter) Wait(ctx context.Context) error {
	if recordingOf(ctx) != nil {
		return nil
	}
	return l.RateLimiter.Wait(ctx)
}
