package access

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// maxToken bounds a bearer token. Those of service accounts have about 1 KB; those of identity providers, with many
// groups, seldom more than 8 KB.
const maxToken = 16 << 10

var (
	errCredentials = errors.New("the request has more than one Authorization header")
	errLongToken   = fmt.Errorf("the request's bearer token is longer than %d KiB", maxToken>>10)
)

// bearer returns the request's bearer token; "" if it has none.
func bearer(r *http.Request) (string, error) {
	headers := r.Header.Values("Authorization")
	switch len(headers) {
	case 0:
		return "", nil
	case 1:
	default: // who reads on might take another one
		return "", errCredentials
	}
	scheme, token, _ := strings.Cut(strings.TrimSpace(headers[0]), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return "", nil
	}
	token, _, _ = strings.Cut(token, " ") // as kube-apiserver does
	if len(token) > maxToken {
		return "", errLongToken
	}
	return token, nil
}
