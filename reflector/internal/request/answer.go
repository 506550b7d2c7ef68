package request

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// ErrPutOff is exported as reflector.ErrPutOff.
var ErrPutOff = errors.New("the server puts the request off")

// noPrevious is what an API server that has no watch cache of a resource, as of events, says of a watch if etcd was
// compacted at exactly its first event: the object before that is gone, and the watch never gets past it.
const noPrevious = "etcd event received with PrevKv=nil"

// Expired reports whether err is a 410, or says the same: the history, or the continue token, is gone.
func Expired(err error) bool {
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) ||
		apierrors.IsInternalError(err) && strings.Contains(err.Error(), noPrevious)
}

// TooLarge reports whether err says that the server has not reached our resourceVersion. Servers before 1.19 say so
// only in the message, which client-go's reflector checks too.
func TooLarge(err error) bool {
	if apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge) {
		return true
	}
	return apierrors.IsTimeout(err) && strings.Contains(err.Error(), "Too large resource version")
}

// Denied reports whether err goes away only if the server changes: no permission, or a resource that is not served.
func Denied(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err)
}

// Rejected reports whether the server has answered a watch with a refusal whose remedy is not known. It is false for
// what Expired, TooLarge and Denied report; for 401, 429, 502 and 503, which pass; for a connection that is lost; and
// for an event that cannot be decoded.
func Rejected(err error) bool {
	var odd *apierrors.UnexpectedObjectError
	if errors.As(err, &odd) {
		return true // an ERROR event whose object is no Status
	}
	status, ok := apiStatus(err)
	switch {
	case !ok, Expired(err), TooLarge(err), Denied(err), apierrors.HasStatusCause(err, watchDecoding):
		return false
	case apierrors.IsUnauthorized(err), apierrors.IsTooManyRequests(err), apierrors.IsServiceUnavailable(err):
		return false
	}
	return status.Code != http.StatusBadGateway
}

// Refused reports whether the server refuses the request's parameters.
func Refused(err error) bool { return apierrors.IsBadRequest(err) || apierrors.IsInvalid(err) }

// RefusesMetadata reports whether err may come from a list by metadata although a list of whole objects would succeed.
func RefusesMetadata(err error) bool {
	return Refused(err) || Denied(err) || apierrors.IsNotAcceptable(err) || apierrors.IsUnsupportedMediaType(err)
}

// inTheBody is part of client-go's error message for every answer whose body broke off, whatever the transport's error
// was. There is no error value for that.
const inTheBody = "reading response body"

// Cut reports whether the answer did not come in time or broke off, so that a smaller one might come. A 504 of the
// server or a gateway means the same. A connection that could not be made, or was lost before the answer, says nothing
// about its size; nor does a server that puts the request off.
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

// RetryAfter returns how long the server asked us to wait; 0 if it did not.
func RetryAfter(err error) time.Duration {
	if s, ok := apierrors.SuggestsClientDelay(err); ok {
		return time.Duration(s) * time.Second
	}
	return 0
}

// Exchanged returns the token of an inconsistent continuation, which servers offer in the 410 for an expired continue
// token; "" if err has none.
func Exchanged(err error) string {
	status, ok := apiStatus(err)
	if !ok || !Expired(err) {
		return ""
	}
	return status.Continue
}

// watchDecoding is the cause that client-go gives the error of an event that it cannot decode. Package wire does, too.
const watchDecoding = "ClientWatchDecoding"

// inTheStream begins the message of that error, before the reason.
const inTheStream = "unable to decode an event from the watch stream: "

// lostConnections begin the reasons that are a transport's: a connection was lost, in a way that client-go does not
// know, and nothing is wrong with the event.
var lostConnections = []string{"http2: ", "stream error: ", "read tcp ", "read unix ", "tls: ", "local error: tls: ",
	"remote error: tls: "}

// Undecodable reports whether err says that an event of a watch cannot be decoded.
func Undecodable(err error) bool {
	return apierrors.HasStatusCause(err, watchDecoding) && !slices.ContainsFunc(lostConnections, func(s string) bool {
		return strings.Contains(err.Error(), inTheStream+s)
	})
}

// EventError returns the error of an ERROR event.
func EventError(ev watch.Event) error {
	if ev.Object == nil {
		return errors.New("the server sent an ERROR event without an object")
	}
	return apierrors.FromObject(ev.Object)
}

// apiStatus returns the Status of an API error; false if err is not one.
func apiStatus(err error) (metav1.Status, bool) {
	var s apierrors.APIStatus
	if !errors.As(err, &s) {
		return metav1.Status{}, false
	}
	return s.Status(), true
}
