package access

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilcache "k8s.io/apimachinery/pkg/util/cache"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
)

const (
	defaultReviewTimeout = 5 * time.Second
	// unreachablePause is how long reviews fail at once after the API server did not answer.
	unreachablePause = 2 * time.Second
	// maxReviews is the maximum number of concurrent reviews. Reviews of unknown tokens have their own limit.
	maxReviews = 64
)

// post sends a review to the API server and decodes the response into review. It first waits for one of the slots,
// which limit concurrent reviews. to is the purpose of the review, for error messages.
func (u *Upstream) post(
	ctx context.Context, slots chan struct{}, c rest.Interface, resource string, review runtime.Object, to string,
) error {
	// The wait for a slot and the review itself may each take u.timeout.
	if err := u.outage.begin(2 * u.timeout); err != nil {
		return unreachableError(to, err)
	}
	waiting, stop := context.WithTimeout(ctx, u.timeout)
	defer stop()
	select {
	case slots <- struct{}{}:
		defer func() { <-slots }()
	case <-waiting.Done():
		ctx = waiting
		u.outage.abandon()
		return &upstreamError{
			message: "cannot " + to + ": too many reviews are under way", cause: ctx.Err(), code: http.StatusTooManyRequests,
		}
	}
	// The timeout for the API server's response begins after the wait for a slot. client-go gets no logger, since it
	// logs bodies, with tokens, at -v=8.
	ctx, cancel := context.WithTimeout(klog.NewContext(ctx, logr.Discard()), u.timeout)
	defer cancel()
	send := func() error {
		return c.Post().Resource(resource).Body(review).MaxRetries(0).Do(ctx).Into(review)
	}
	err := send()
	if err != nil && isLost(err) {
		err = send() // the retry uses a new connection: the lost one may date from before a restart
	}
	failed := explainReview(err, resource, to)
	switch began, ended := u.outage.end(failed); {
	case began:
		u.log.Error(err, "The API server cannot be reached to say who clients are and what they may do")
	case ended:
		u.log.Info("The API server can be reached again")
	}
	if failed != nil {
		return failed
	}
	return nil
}

func isLost(err error) bool {
	return utilnet.IsConnectionReset(err) || utilnet.IsHTTP2ConnectionLost(err) || utilnet.IsProbableEOF(err)
}

// explainReview converts the error of a review to an upstreamError: the API server is unreachable, or it does not
// decide. It returns nil for nil.
func explainReview(err error, resource, to string) *upstreamError {
	if err == nil {
		return nil
	}
	code := int32(0) // code stays 0 if the response is not a Status
	if answer := apierrors.APIStatus(nil); errors.As(err, &answer) {
		code = answer.Status().Code
	}
	e := &upstreamError{cause: err, code: http.StatusInternalServerError}
	switch code {
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return unreachableError(to, err)
	case http.StatusTooManyRequests:
		e.code = http.StatusTooManyRequests
		e.message = "cannot " + to + ": the API server has too many requests"
	case http.StatusUnauthorized, http.StatusForbidden:
		e.message = fmt.Sprintf("cannot %s: the API server does not let Larder create %s; "+
			"bind the ClusterRole system:auth-delegator to Larder's own user", to, resource)
	case 0:
		var asked *url.Error
		var network net.Error
		if isLost(err) || errors.As(err, &asked) || errors.As(err, &network) ||
			errors.Is(err, context.DeadlineExceeded) || errors.Is(err, io.ErrUnexpectedEOF) {
			return unreachableError(to, err)
		}
		fallthrough
	default:
		e.message = "cannot " + to + ": the API server does not answer the question"
	}
	return e
}

func unreachableError(to string, cause error) *upstreamError {
	return &upstreamError{
		message: "cannot " + to + ": the API server cannot be reached", cause: cause,
		code: http.StatusServiceUnavailable, unreachable: true,
	}
}

// outage makes reviews fail at once while the API server does not answer, except for an attempt every unreachablePause.
type outage struct {
	mu sync.Mutex
	// last is why the API server is unreachable; nil if it is reachable.
	last error
	// retryAt is the time from which one review may be tried again.
	retryAt time.Time
}

// begin fails during an outage, unless it is time for another attempt. After a nil error the caller sends a review,
// which lasts at most timeout, and then calls end; or it sends no review and calls abandon.
func (o *outage) begin(timeout time.Duration) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.last == nil {
		return nil
	}
	now := time.Now()
	if now.Before(o.retryAt) {
		return o.last
	}
	o.retryAt = now.Add(timeout + unreachablePause) // end replaces this time when the review has a result
	return nil
}

// abandon ends an attempt whose review was not sent, so that the next review is sent.
func (o *outage) abandon() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.retryAt = time.Now()
}

// end reports whether the result of a review begins or ends an outage of the API server. err is nil on success.
func (o *outage) end(err *upstreamError) (began, ended bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err == nil || !err.unreachable {
		ended, o.last = o.last != nil, nil
		return false, ended
	}
	began, o.last = o.last == nil, err.cause
	o.retryAt = time.Now().Add(unreachablePause)
	return began, false
}

// cacheEntries is the maximum number of cached answers for each kind of review. They take about 10 MB.
const cacheEntries = 8192

// cacheKey identifies a question to the API server: an HMAC of the question with a secret of the process. So no token
// is kept in memory, and no client can search for collisions.
type cacheKey [sha256.Size]byte

// reviewCache caches the API server's answers to reviews. Equal questions that are asked at the same time are sent
// once. Errors are not cached.
type reviewCache[V any] struct {
	secret  [32]byte
	entries *utilcache.LRUExpireCache

	mu sync.Mutex
	// calls are the questions that are being asked. mu guards calls.
	calls map[cacheKey]*call[V]
}

type call[V any] struct {
	// done is closed when the answer is in value and err.
	done  chan struct{}
	value V
	err   error
}

func newReviewCache[V any]() *reviewCache[V] {
	c := &reviewCache[V]{entries: utilcache.NewLRUExpireCache(cacheEntries), calls: map[cacheKey]*call[V]{}}
	_, _ = rand.Read(c.secret[:]) // rand.Read never fails
	return c
}

func (c *reviewCache[V]) key(parts ...string) (k cacheKey) {
	h := hmac.New(sha256.New, c.secret[:])
	for _, p := range parts {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(p))))
		h.Write([]byte(p))
	}
	h.Sum(k[:0])
	return k
}

func (c *reviewCache[V]) kept(k cacheKey) (v V, ok bool) {
	if kept, ok := c.entries.Get(k); ok {
		return kept.(V), true
	}
	return v, false
}

func (c *reviewCache[V]) keep(k cacheKey, v V, lasts time.Duration) { c.entries.Add(k, v, lasts) }

// get returns the cached answer to a question, or calls fetch, which asks and also returns how long the answer is
// valid. Of several concurrent callers with the same question, the first runs fetch. The context of fetch outlives that
// caller's, since the other callers wait for the same answer.
func (c *reviewCache[V]) get(
	ctx context.Context, k cacheKey, fetch func(context.Context) (V, time.Duration, error),
) (V, error) {
	if v, ok := c.kept(k); ok {
		return v, nil
	}
	c.mu.Lock()
	if call := c.calls[k]; call != nil {
		c.mu.Unlock()
		return call.wait(ctx)
	}
	if v, ok := c.kept(k); ok { // an earlier call for the same question has just ended
		c.mu.Unlock()
		return v, nil
	}
	first := &call[V]{done: make(chan struct{}), err: context.Canceled} // the error stays canceled if fetch panics
	c.calls[k] = first
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		delete(c.calls, k)
		c.mu.Unlock()
		close(first.done)
	}()
	var lasts time.Duration
	if first.value, lasts, first.err = fetch(context.WithoutCancel(ctx)); first.err == nil {
		c.keep(k, first.value, lasts)
	}
	return first.value, first.err
}

func (c *call[V]) wait(ctx context.Context) (V, error) {
	select {
	case <-c.done:
		return c.value, c.err
	case <-ctx.Done():
		var none V
		return none, context.Cause(ctx)
	}
}

// ErrUnreachable says that the API server did not answer. Errors that wrap it are apierrors.APIStatus with status 503.
var ErrUnreachable = errors.New("the API server cannot be reached")

// upstreamError is the error of a review on the API server that ended without a decision. Its Status is for the client
// and omits cause, which contains addresses and is for logs.
type upstreamError struct {
	message     string
	cause       error
	code        int32
	unreachable bool
}

func (e *upstreamError) Error() string { return e.message + ": " + e.cause.Error() }

func (e *upstreamError) Unwrap() []error {
	if e.unreachable {
		return []error{ErrUnreachable, e.cause}
	}
	return []error{e.cause}
}

func (e *upstreamError) Status() metav1.Status {
	s := metav1.Status{Status: metav1.StatusFailure, Code: e.code, Message: e.message, Details: &metav1.StatusDetails{}}
	switch e.code {
	case http.StatusServiceUnavailable:
		s.Reason = metav1.StatusReasonServiceUnavailable
		s.Details.RetryAfterSeconds = 1
	case http.StatusTooManyRequests:
		s.Reason = metav1.StatusReasonTooManyRequests
		s.Details.RetryAfterSeconds = 1
	default:
		s.Reason = metav1.StatusReasonInternalError
	}
	return s
}
