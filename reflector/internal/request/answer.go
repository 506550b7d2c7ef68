package request

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// errPutOff is reflector.ErrPutOff.
var ErrPutOff = errors.New("the server puts the request off")

// Expired reports a 410: the history, or the continue token, is gone.
func Expired(err error) bool {
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err)
}

// TooLarge reports that the server does not know our resourceVersion yet. Servers
// before 1.19 tell it by message only (as client-go's reflector takes into account).
func TooLarge(err error) bool {
	if apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge) {
		return true
	}
	return apierrors.IsTimeout(err) && strings.Contains(err.Error(), "Too large resource version")
}

// Denied reports an answer that only a change at the server mends: rights, or a resource that is not served.
func Denied(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err)
}

// Refused reports that the server does not take the request's parameters.
func Refused(err error) bool { return apierrors.IsBadRequest(err) || apierrors.IsInvalid(err) }

// RefusesMetadata reports an answer to a list by metadata that whole objects may not get.
func RefusesMetadata(err error) bool {
	return Refused(err) || Denied(err) || apierrors.IsNotAcceptable(err) || apierrors.IsUnsupportedMediaType(err)
}

// inTheBody is part of what client-go's REST client says of every answer whose body broke off, whatever the transport's
// error was; it has no error of its own for that.
const inTheBody = "reading response body"

// Cut reports that an answer did not come in time, or not to its end: less of it might. A 504 is the server's, or a
// gateway's, word for the same. A connection that could not be made, or was lost before the answer, says nothing about
// its size, and neither does a server that puts a request off.
func Cut(err error) bool {
	if errors.Is(err, ErrPutOff) {
		return false
	}
	if _, ok := apiStatus(err); ok {
		return apierrors.IsTimeout(err) && !TooLarge(err)
	}
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		return false
	}
	var late net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &late) && late.Timeout() ||
		errors.Is(err, io.ErrUnexpectedEOF) || strings.Contains(err.Error(), inTheBody)
}

// RetryAfter is what the server asked us to wait.
func RetryAfter(err error) time.Duration {
	if s, ok := apierrors.SuggestsClientDelay(err); ok {
		return time.Duration(s) * time.Second
	}
	return 0
}

// Exchanged is the token of an inconsistent continuation, which servers offer
// in the 410 that says that the old token's history is gone.
func Exchanged(err error) string {
	status, ok := apiStatus(err)
	if !ok || !Expired(err) {
		return ""
	}
	return status.Continue
}

// EventError is the error of an ERROR event.
func EventError(ev watch.Event) error {
	if ev.Object == nil {
		return errors.New("the server sent an ERROR event without an object")
	}
	return apierrors.FromObject(ev.Object)
}

// apiStatus is the Status of an API error.
func apiStatus(err error) (metav1.Status, bool) {
	var s apierrors.APIStatus
	if !errors.As(err, &s) {
		return metav1.Status{}, false
	}
	return s.Status(), true
}
