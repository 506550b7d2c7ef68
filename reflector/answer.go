package reflector

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// noPrevious is part of the error of a watch from an API server without a watch cache for the resource (events, for
// example), if etcd was compacted at exactly the next event. The previous state of that event's object is gone, so
// every watch from that resourceVersion fails.
const noPrevious = "etcd event received with PrevKv=nil"

// isExpired reports whether err is a 410 or an equivalent: the history is lost, or the continue token has expired.
func isExpired(err error) bool {
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) ||
		apierrors.IsInternalError(err) && strings.Contains(err.Error(), noPrevious)
}

// isTooLarge reports whether err says that the server has not reached the requested resourceVersion yet. Servers before
// 1.19 say so only in the message, which client-go's reflector checks too.
func isTooLarge(err error) bool {
	if apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge) {
		return true
	}
	return apierrors.IsTimeout(err) && strings.Contains(err.Error(), "Too large resource version")
}

// isForbidden reports whether err (403, 404, 405) persists until the server grants the permission or serves the
// resource.
func isForbidden(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err)
}

// rejected reports whether the server has refused a watch with an error that has no known remedy. It is false for
// isExpired, isTooLarge and isForbidden; for 401, 429, 502 and 503, which are temporary; for a lost connection; and for
// an event that cannot be decoded.
func rejected(err error) bool {
	var odd *apierrors.UnexpectedObjectError
	if errors.As(err, &odd) {
		return true // an ERROR event whose object is not a Status has no known remedy
	}
	status, ok := apiStatus(err)
	switch {
	case !ok, isExpired(err), isTooLarge(err), isForbidden(err), apierrors.HasStatusCause(err, watchDecoding):
		return false
	case apierrors.IsUnauthorized(err), apierrors.IsTooManyRequests(err), apierrors.IsServiceUnavailable(err):
		return false
	}
	return status.Code != http.StatusBadGateway
}

// isRefused reports whether err says that the server does not accept the request's parameters.
func isRefused(err error) bool { return apierrors.IsBadRequest(err) || apierrors.IsInvalid(err) }

// refusesMetadata reports whether a list of whole objects might succeed after the error err of a list of metadata.
func refusesMetadata(err error) bool {
	return isRefused(err) || isForbidden(err) || apierrors.IsNotAcceptable(err) || apierrors.IsUnsupportedMediaType(err)
}

// inTheBody is part of client-go's error message for every answer whose body broke off. client-go has no error value
// for these answers.
const inTheBody = "reading response body"

// isCut reports whether the answer timed out or broke off, so that a smaller answer might arrive. A 504 of the server
// or a gateway counts too. ErrPutOff does not count, nor does a connection that was lost before the answer, which says
// nothing about the answer's size.
func isCut(err error) bool {
	if errors.Is(err, ErrPutOff) {
		return false
	}
	if _, ok := apiStatus(err); ok {
		return apierrors.IsTimeout(err) && !isTooLarge(err)
	}
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		return false
	}
	var late net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &late) && late.Timeout() ||
		errors.Is(err, io.ErrUnexpectedEOF) || strings.Contains(err.Error(), inTheBody)
}

// retryAfter returns how long the server asked the client to wait; 0 if it did not.
func retryAfter(err error) time.Duration {
	if s, ok := apierrors.SuggestsClientDelay(err); ok {
		return time.Duration(s) * time.Second
	}
	return 0
}

// exchanged returns the new continue token that servers offer in the 410 for an expired one; "" if err has none.
func exchanged(err error) string {
	status, ok := apiStatus(err)
	if !ok || !isExpired(err) {
		return ""
	}
	return status.Continue
}

// watchDecoding is the cause's type in client-go's (and package wire's) error for an undecodable event.
const watchDecoding = "ClientWatchDecoding"

// inTheStream begins the message of client-go's error for an event that it cannot decode.
const inTheStream = "unable to decode an event from the watch stream: "

// lostConnections are texts with which a transport's error begins. client-go reports some lost connections as events
// that cannot be decoded, though nothing is wrong with the event.
var lostConnections = []string{"http2: ", "stream error: ", "read tcp ", "read unix ", "tls: ", "local error: tls: ",
	"remote error: tls: "}

// isUndecodable reports whether err says that an event of a watch cannot be decoded.
func isUndecodable(err error) bool {
	return apierrors.HasStatusCause(err, watchDecoding) && !slices.ContainsFunc(lostConnections, func(s string) bool {
		return strings.Contains(err.Error(), inTheStream+s)
	})
}

// eventError returns the error of an ERROR event.
func eventError(ev watch.Event) error {
	if ev.Object == nil {
		return errors.New("the server sent an ERROR event without an object")
	}
	return apierrors.FromObject(ev.Object)
}

func apiStatus(err error) (metav1.Status, bool) {
	var s apierrors.APIStatus
	if !errors.As(err, &s) {
		return metav1.Status{}, false
	}
	return s.Status(), true
}

// answers counts the HTTP responses to a request, including redirections and refusals. client-go's REST client repeats
// a request that is refused with Retry-After, up to ten times. If the request times out meanwhile, its error does not
// mention these refusals.
type answers struct{ n atomic.Int32 }

func (a *answers) count(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotFirstResponseByte: func() { a.n.Add(1) }})
}

// explain wraps ErrPutOff around err if the request timed out while client-go was waiting to repeat it. Two signs show
// that: several responses; or a single response and a url.Error, which net/http returns if the repetition had no
// response. After a single response the context's error alone proves nothing: the time may have ended while a body was
// read.
func (a *answers) explain(err error) error {
	var unanswered *url.Error
	n := a.n.Load()
	switch {
	case !errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(), inTheBody):
	case n > 1, n == 1 && errors.As(err, &unanswered):
		return fmt.Errorf("%w: %w", ErrPutOff, err)
	}
	return err
}
