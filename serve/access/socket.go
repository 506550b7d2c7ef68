package access

import (
	"encoding/base64"
	"errors"
	"net/http"
	"strings"
	"unicode/utf8"
)

const (
	// socketTokenPrefix begins the websocket subprotocol that carries a token. Browsers need the subprotocol, since
	// they cannot set the Authorization header of a websocket.
	socketTokenPrefix = "base64url.bearer.authorization.k8s.io."
	socketProtocols   = "Sec-Websocket-Protocol"
)

var (
	errSocketTokens    = errors.New("the websocket's subprotocols have more than one token")
	errSocketToken     = errors.New("the token in the websocket's subprotocols is no base64url of text")
	errSocketProtocols = errors.New("beside that of the token, the websocket needs a subprotocol to answer with")
)

// moveSocketToken moves a token from the subprotocols of a websocket to the Authorization header, where authenticators
// and API servers expect it. An existing Authorization header takes precedence, as in kube-apiserver.
func moveSocketToken(r *http.Request) error {
	if !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") || r.Header.Get("Authorization") != "" {
		return nil
	}
	token, seen, others := "", false, []string(nil)
	for protocol := range strings.SplitSeq(strings.Join(r.Header.Values(socketProtocols), ","), ",") {
		protocol = strings.TrimSpace(protocol)
		encoded, ok := strings.CutPrefix(protocol, socketTokenPrefix)
		if !ok {
			others = append(others, protocol)
			continue
		}
		decoded, err := base64.RawURLEncoding.DecodeString(encoded)
		switch {
		case seen:
			return errSocketTokens
		case err != nil, !utf8.Valid(decoded):
			return errSocketToken
		}
		token, seen = string(decoded), true
	}
	switch {
	case token == "":
		return nil
	case len(others) == 0:
		return errSocketProtocols
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set(socketProtocols, strings.Join(others, ","))
	return nil
}
