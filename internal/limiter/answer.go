package limiter

import (
	"errors"
	"io"
	"net"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Unanswered reports that no API server has answered: the connection failed or was too slow, or a gateway says that it
// has no server. Of what it says when it is the server itself that is meant the same is true.
func Unanswered(err error) bool {
	if code, ok := statusOf(err); ok {
		return code == http.StatusBadGateway || code == http.StatusServiceUnavailable || code == http.StatusGatewayTimeout
	}
	var failed net.Error
	return errors.As(err, &failed) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// Answered reports that err is the word of an API server, which so was heard.
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

// Final reports an error with which an API server says for good that it will not tell.
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
