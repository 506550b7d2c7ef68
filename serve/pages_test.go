package serve_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/larder-dev/larder/serve"
	"github.com/larder-dev/larder/serve/access"
	"github.com/larder-dev/larder/serve/page"
	"github.com/larder-dev/larder/store"
)

// lookers may get what is below /larder/, if the user is among them.
type lookers []string

func (l lookers) Authorize(_ context.Context, a access.Attributes) (access.Decision, error) {
	for _, user := range l {
		if a.User.Username == user && a.Verb == "get" && strings.HasPrefix(a.Path, "/larder/") {
			return access.Decision{Allowed: true}, nil
		}
	}
	return access.Decision{}, nil
}

// TestPage: the page's files are everybody's; its data are for whom the authorizer lets get their path.
func TestPage(t *testing.T) {
	st, err := store.Open(filepath.Join(t.TempDir(), "store.db"), store.Options{})
	must(t, err)
	defer func() { must(t, st.Close()) }()
	owner, err := access.NewStaticToken(strings.Repeat("o", 40), "owner")
	must(t, err)
	stranger, err := access.NewStaticToken(strings.Repeat("s", 40), "stranger")
	must(t, err)
	data := page.New(page.Options{Status: func(context.Context) (page.Status, error) { return page.Status{File: "x"}, nil }})
	h, err := serve.New(serve.Mirror(st), serve.Options{Page: data, Authorizer: lookers{"owner"}})
	must(t, err)
	defer func() { must(t, h.Close()) }()
	guarded := page.Files(access.NewHandler(h, access.HandlerOptions{Authenticator: access.Union(owner, stranger)}))
	open, err := serve.New(serve.Mirror(st), serve.Options{Page: data})
	must(t, err)
	defer func() { must(t, open.Close()) }()
	for _, tt := range []struct {
		h                   http.Handler
		method, path, token string
		code                int
	}{
		{guarded, http.MethodGet, "/", "", http.StatusOK},
		{guarded, http.MethodGet, "/page/app.js", "", http.StatusOK},
		{guarded, http.MethodGet, "/larder/status", "", http.StatusUnauthorized},
		{guarded, http.MethodGet, "/larder/status", "x", http.StatusUnauthorized},
		{guarded, http.MethodGet, "/larder/status", "s", http.StatusForbidden},
		{guarded, http.MethodGet, "/larder/status", "o", http.StatusOK},
		{guarded, http.MethodHead, "/larder/status", "o", http.StatusOK},
		{guarded, http.MethodPost, "/larder/status", "o", http.StatusNotFound},
		{guarded, http.MethodGet, "/larder/changes", "o", http.StatusNotFound},
		{guarded, http.MethodPost, "/", "", http.StatusUnauthorized},
		{page.Files(open), http.MethodGet, "/larder/status", "", http.StatusOK},
	} {
		r := httptest.NewRequest(tt.method, tt.path, nil)
		if tt.token != "" {
			r.Header.Set("Authorization", "Bearer "+strings.Repeat(tt.token, 40))
		}
		w := httptest.NewRecorder()
		tt.h.ServeHTTP(w, r)
		if w.Code != tt.code {
			t.Errorf("%s %s as %q: %d, want %d: %s", tt.method, tt.path, tt.token, w.Code, tt.code, w.Body)
		}
	}
}
