package access

import (
	"context"
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
	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
)

const (
	// defaultReviewTimeout bounds a review.
	defaultReviewTimeout = 5 * time.Second
	// unreachablePause is how long nobody waits for an API server that did not answer; then one review tries.
	unreachablePause = 2 * time.Second
	// maxReviews are under way at most, those of unknown tokens apart.
	maxReviews = 64
)

// post creates a review when there is a slot, and reads the answer into it. to says what for, in errors.
func (u *Upstream) post(
	ctx context.Context, slots chan struct{}, c rest.Interface, resource string, review runtime.Object, to string,
) error {
	if err := u.outage.begin(2 * u.timeout); err != nil { // the wait for a slot, and the answer
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
	// The wait for a slot is not the API server's time. Without a logger: client-go logs bodies at -v=8.
	ctx, cancel := context.WithTimeout(klog.NewContext(ctx, logr.Discard()), u.timeout)
	defer cancel()
	send := func() error {
		return c.Post().Resource(resource).Body(review).MaxRetries(0).Do(ctx).Into(review)
	}
	err := send()
	if err != nil && isLost(err) {
		err = send() // on a new connection: the old one may be from before an outage that is over
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

// isLost reports whether a connection ended before there was an answer.
func isLost(err error) bool {
	return utilnet.IsConnectionReset(err) || utilnet.IsHTTP2ConnectionLost(err) || utilnet.IsProbableEOF(err)
}

// explainReview classifies the error of a review; nil if there is none.
func explainReview(err error, resource, to string) *upstreamError {
	if err == nil {
		return nil
	}
	code := int32(0) // no answer that is a Status
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

// outage keeps who asks from waiting for an API server that does not answer.
type outage struct {
	mu      sync.Mutex
	last    error     // why the API server could not be reached; nil if it could
	retryAt time.Time // from then on one review may try
}

// begin fails if the API server could not be reached a moment ago, or another review is trying. Otherwise a review
// follows, of at most the time that is given, and then end or abandon.
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
	o.retryAt = now.Add(timeout + unreachablePause) // end comes before
	return nil
}

// abandon is instead of end if nothing was sent.
func (o *outage) abandon() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.retryAt = time.Now()
}

// end notes how a review went, and reports whether an outage has begun or ended with it. err is nil if it went well.
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
