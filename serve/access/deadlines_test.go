package access_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/larder-dev/larder/serve/access"
)

type deadlines struct {
	*httptest.ResponseRecorder
	read, write []time.Time
}

func (d *deadlines) SetReadDeadline(t time.Time) error {
	d.read = append(d.read, t)
	return nil
}

func (d *deadlines) SetWriteDeadline(t time.Time) error {
	d.write = append(d.write, t)
	return nil
}

func newDeadlines() *deadlines { return &deadlines{ResponseRecorder: httptest.NewRecorder()} }

// TestDeadlines checks that a request sets deadlines on its connection, and that a watch removes them. The connection
// of a rejected request is closed without waiting for the request's body.
func TestDeadlines(t *testing.T) {
	watching := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/watch" {
			return
		}
		if err := access.LongRunning(r.Context()); err != nil {
			access.WriteError(w, r, err)
		}
	})
	h := handler(watching, byToken{}, access.Limits{})
	for _, path := range []string{"/", "/watch"} {
		r, d := httptest.NewRequest(http.MethodGet, path, nil), newDeadlines()
		r.Header.Set("Authorization", "Bearer jane")
		h.ServeHTTP(d, r)
		for what, all := range map[string][]time.Time{"read": d.read, "write": d.write} {
			if len(all) == 0 || all[0].IsZero() || all[len(all)-1].IsZero() != (path == "/watch") {
				t.Errorf("%s: the deadlines to %s are %v", path, what, all)
			}
		}
	}
	r, d := httptest.NewRequest(http.MethodPost, "/", strings.NewReader("x")), newDeadlines()
	h.ServeHTTP(d, r)
	if n := len(d.read); d.Code != http.StatusUnauthorized || n == 0 || d.read[n-1].After(time.Unix(1, 0)) ||
		d.Header().Get("Connection") != "close" {
		t.Errorf("a refused request with a body: %d, %v, deadlines to read %v", d.Code, d.Header(), d.read)
	}
}

func TestHeadersOfRefusals(t *testing.T) {
	h := handler(reached, byToken{}, access.Limits{})
	for protocol, want := range map[int]string{1: "", 2: "close"} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.ProtoMajor = protocol
		if w := answer(h, r); w.Code != http.StatusUnauthorized || w.Header().Get("Connection") != want {
			t.Errorf("HTTP/%d: %d, Connection %q, want %q", protocol, w.Code, w.Header().Get("Connection"), want)
		}
	}
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set("Authorization", "Bearer jane")
	r.Header.Set("Impersonate-User", "joe")
	if w := answer(h, r); w.Code != http.StatusForbidden || w.Header().Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("%d, %v", w.Code, w.Header())
	}
}
