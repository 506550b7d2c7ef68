package access

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// maxToken is the maximum size of a bearer token in bytes. Service-account tokens have about 1 KB; tokens of identity
// providers with many groups seldom exceed 8 KB.
const maxToken = 16 << 10

var (
	errCredentials = errors.New("the request has more than one Authorization header")
	errLongToken   = fmt.Errorf("the request's bearer token is longer than %d KiB", maxToken>>10)
)

func bearer(r *http.Request) (string, error) {
	headers := r.Header.Values("Authorization")
	switch len(headers) {
	case 0:
		return "", nil
	case 1:
	default: // servers differ in which of several Authorization headers they use
		return "", errCredentials
	}
	scheme, token, _ := strings.Cut(strings.TrimSpace(headers[0]), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return "", nil
	}
	token, _, _ = strings.Cut(token, " ") // kube-apiserver ignores the text after a space, too
	if len(token) > maxToken {
		return "", errLongToken
	}
	return token, nil
}
