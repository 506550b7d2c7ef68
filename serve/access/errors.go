package access

import (
	"errors"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

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
