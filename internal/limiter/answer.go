package limiter

import (
	"errors"
	"io"
	"net"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Unanswered reports whether err means that no API server answered: the connection failed or timed out, or a gateway
// that reached no server returned 502, 503 or 504.
func Unanswered(err error) bool {
	if code, ok := statusOf(err); ok {
		return code == http.StatusBadGateway || code == http.StatusServiceUnavailable || code == http.StatusGatewayTimeout
	}
	var failed net.Error
	return errors.As(err, &failed) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

func Answered(err error) bool {
	_, ok := statusOf(err)
	return ok && !Unanswered(err)
}

func statusOf(err error) (code int32, ok bool) {
	var s apierrors.APIStatus
	if !errors.As(err, &s) {
		return 0, false
	}
	return s.Status().Code, true
}

// Final reports whether err is an API server's rejection that will not change soon, so a retry is useless.
func Final(err error) bool {
	code, ok := statusOf(err)
	if !ok {
		return false
	}
	switch code {
	case http.StatusBadRequest, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed,
		http.StatusNotAcceptable, http.StatusNotImplemented:
		return true
	}
	return false
}
