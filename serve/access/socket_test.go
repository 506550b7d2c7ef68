package access_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/larder-dev/larder/serve/access"
)

// TestSocketToken checks that a token in a websocket's subprotocols authenticates the request, and that the next
// handler does not see the subprotocol with the token (issue 38, F.26).
func TestSocketToken(t *testing.T) {
	const prefix = "base64url.bearer.authorization.k8s.io."
	jane := prefix + "amFuZQ"
	h := handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Header.Get("Authorization")+"; "+strings.Join(r.Header["Sec-Websocket-Protocol"], " | "))
	}), byToken{}, access.Limits{})
	for _, tt := range []struct {
		name      string
		upgrade   string
		header    string
		protocols []string
		want      string
	}{
		{"a token", "websocket", "", []string{jane + ", a"}, "Bearer jane; a"},
		{"several headers", "WebSocket", "", []string{"a", jane, "b"}, "Bearer jane; a,b"},
		{"a header, too", "websocket", "Bearer joe", []string{"a"}, "Bearer joe; a"},
		{"no websocket", "SPDY/3.1", "", []string{jane + ", a"}, ""},
		{"nothing else", "websocket", "", []string{jane}, ""},
		{"two tokens", "websocket", "", []string{jane, jane, "a"}, ""},
		{"an empty token", "websocket", "", []string{prefix, "a"}, ""},
		{"no base64", "websocket", "", []string{prefix + "=", "a"}, ""},
		{"no text", "websocket", "", []string{prefix + "_w", "a"}, ""},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header["Sec-Websocket-Protocol"] = tt.protocols
		r.Header.Set("Upgrade", tt.upgrade)
		if tt.header != "" {
			r.Header.Set("Authorization", tt.header)
		}
		if w := answer(h, r); w.Code == http.StatusOK && w.Body.String() != tt.want ||
			(w.Code == http.StatusUnauthorized) != (tt.want == "") {
			t.Errorf("%s: %d %s", tt.name, w.Code, w.Body)
		}
	}
}
