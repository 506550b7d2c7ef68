package page_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/larder-dev/larder/serve/page"
)

// elsewhere is the handler for requests that page.Files passes on, since they are not for a file of the page.
var elsewhere = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	w.WriteHeader(http.StatusTeapot)
})

func ask(h http.Handler, method, target string, header ...string) *http.Response {
	r := httptest.NewRequest(method, target, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func body(t *testing.T, r *http.Response) string {
	t.Helper()
	data, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func checkSecure(t *testing.T, what string, h http.Header) {
	t.Helper()
	for name, want := range map[string]string{
		"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "X-Frame-Options": "DENY",
	} {
		if h.Get(name) != want {
			t.Errorf("%s: %s is %q", what, name, h.Get(name))
		}
	}
	policy := h.Get("Content-Security-Policy")
	for _, want := range []string{"default-src 'none'", "script-src 'self';", "style-src 'self';", "connect-src 'self';",
		"img-src 'self' data:;", "form-action 'none'", "base-uri 'none'", "require-trusted-types-for 'script'"} {
		if !strings.Contains(policy, want) {
			t.Errorf("%s: the policy %q lacks %q", what, policy, want)
		}
	}
	if strings.Contains(policy, "unsafe") {
		t.Errorf("%s: the policy is %q", what, policy)
	}
}

// TestFiles checks the static files' content types, and that other requests reach the next handler.
func TestFiles(t *testing.T) {
	h := page.Files(elsewhere)
	names, err := filepath.Glob("static/*")
	if err != nil || len(names) < 8 {
		t.Fatalf("the files are %v, %v", names, err)
	}
	types := map[string]string{".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8",
		".css": "text/css; charset=utf-8", ".svg": "image/svg+xml"}
	for _, name := range names {
		target := "/page/" + filepath.Base(name)
		if filepath.Base(name) == "index.html" {
			target = "/"
		}
		want, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		r := ask(h, http.MethodGet, target)
		if r.StatusCode != http.StatusOK || body(t, r) != string(want) || r.Header.Get("Content-Type") != types[path.Ext(name)] {
			t.Errorf("%s: %s, %s", target, r.Status, r.Header.Get("Content-Type"))
		}
		checkSecure(t, target, r.Header)
		if r.Header.Get("Set-Cookie") != "" {
			t.Errorf("%s sets a cookie", target)
		}
		if again := ask(h, http.MethodGet, target, "If-None-Match", r.Header.Get("ETag")); again.StatusCode != http.StatusNotModified {
			t.Errorf("%s is sent again: %s", target, again.Status)
		}
		if head := ask(h, http.MethodHead, target); head.StatusCode != http.StatusOK || body(t, head) != "" {
			t.Errorf("HEAD %s: %s", target, head.Status)
		}
	}
	for _, other := range []string{"GET /page/", "GET /page", "GET /page/index.html", "GET /page/nope.js", "GET /page/../static/app.js",
		"GET /page//app.js", "GET /api", "GET /larder/status", "GET /favicon.ico", "POST /", "DELETE /page/app.js", "OPTIONS /"} {
		method, target, _ := strings.Cut(other, " ")
		if r := ask(h, method, target); r.StatusCode != http.StatusTeapot {
			t.Errorf("%s: %s", other, r.Status)
		}
	}
}

// TestFilesAreSelfContained checks that the files contain no external links, no HTML from strings, no inline scripts
// and styles, and no cookies.
func TestFilesAreSelfContained(t *testing.T) {
	forbidden := regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|DOMParser|` +
		`\bon[a-z]+="|style="|document\.cookie|localStorage|https?://`)
	names, err := filepath.Glob("static/*")
	if err != nil || len(names) < 8 {
		t.Fatalf("the files are %v, %v", names, err)
	}
	lines := 0
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		text := strings.Replace(string(data), `xmlns="http://www.w3.org/2000/svg"`, "", 1)
		if found := forbidden.FindString(text); found != "" {
			t.Errorf("%s has %s", name, found)
		}
		for i, line := range strings.Split(text, "\n") {
			if len([]rune(line)) > 120 && path.Ext(name) != ".svg" {
				t.Errorf("%s:%d is longer than 120 columns", name, i+1)
			}
			lines++
		}
	}
	if lines > 1400 {
		t.Errorf("the page has %d lines", lines)
	}
}

// TestData checks that the page's data are sent as JSON, and that data for which Options has no function return 404.
func TestData(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var query page.ChangesQuery
	var asked page.Ref
	whole := page.New(page.Options{
		Status: func(context.Context) (page.Status, error) { return page.Status{File: "m.db", Of: "mirror"}, nil },
		Changes: func(_ context.Context, q page.ChangesQuery) (page.Record, error) {
			query = q
			return page.Record{Since: at, Counts: map[string]int{"pods": 3}, Changes: []page.Change{{Time: at, Kind: page.Changed, Resource: "pods", Name: "<b>",
				Fields: []page.Field{{Path: "spec", Old: "a: 1", New: "a: 2"}}}}}, nil
		},
		Compare: func(context.Context) (page.Comparison, error) { return page.Comparison{Same: 7}, nil },
		Sides: func(_ context.Context, r page.Ref) (string, string, error) {
			asked = r
			if r.Name == "none" {
				return "", "", page.ErrNotFound
			}
			return "a", "b", nil
		},
	})
	for _, tt := range []struct {
		h      http.Handler
		target string
		code   int
		want   string
	}{
		{whole, "/larder/status", 200, `"file":"m.db","of":"mirror"`},
		{whole, "/larder/status", 200, `"collections":[],"changes":true,"compare":true`},
		{whole, "/larder/changes?since=2026-01-02T03:04:05Z&limit=5", 200, `"kind":"changed","resource":"pods"`},
		{whole, "/larder/changes", 200, `"counts":{"pods":3}`},
		{whole, "/larder/changes?since=2026-01-02T03:04:05Z&limit=5&kind=pods&namespace=a&name=b", 200, `"kind":"changed"`},
		{whole, "/larder/changes?since=yesterday", 400, `since is no time`},
		{whole, "/larder/changes?limit=0", 400, `limit is no number above 0`},
		{whole, "/larder/compare", 200, `"same":7,"changes":[]`},
		{whole, "/larder/compare/object?group=apps&version=v1&resource=deployments&namespace=n&name=x", 200, `{"a":"a","b":"b"}`},
		{whole, "/larder/compare/object?name=none", 404, `"code":404`},
		{whole, "/larder/", 404, `nothing at this path`},
		{whole, "/larder/nope", 404, `nothing at this path`},
		{page.New(page.Options{}), "/larder/status", 404, `nothing at this path`},
		{page.New(page.Options{Status: func(context.Context) (page.Status, error) { return page.Status{}, errors.New("broken") }}),
			"/larder/status", 500, `"message":"broken"`},
		{page.New(page.Options{Status: func(context.Context) (page.Status, error) {
			return page.Status{}, apierrors.NewServiceUnavailable("overwritten")
		}}), "/larder/status", 503, `"message":"overwritten"`},
	} {
		r := ask(tt.h, http.MethodGet, tt.target)
		text := body(t, r)
		if r.StatusCode != tt.code || !strings.Contains(text, tt.want) || !json.Valid([]byte(text)) {
			t.Errorf("%s: %s %s", tt.target, r.Status, text)
		}
		checkSecure(t, tt.target, r.Header)
		if r.Header.Get("Cache-Control") != "no-store" || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: %v", tt.target, r.Header)
		}
	}
	want := page.ChangesQuery{Since: at, Limit: 5, Kind: "pods", Namespace: "a", Name: "b"}
	if query != want || asked.Name != "none" {
		t.Errorf("the functions were asked for %v, %v", query, asked)
	}
	ask(whole, http.MethodGet, "/larder/compare/object?group=apps&version=v1&resource=deployments&namespace=n&name=x")
	if want := (page.Ref{Group: "apps", Version: "v1", Resource: "deployments", Namespace: "n", Name: "x"}); asked != want {
		t.Errorf("asked for %v", asked)
	}
	if r := ask(whole, http.MethodPost, "/larder/status"); r.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("POST: %s", r.Status)
	}
}

// TestComparesOneAtATime checks that comparisons do not overlap, and that a waiting request ends with its client.
func TestComparesOneAtATime(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	h := page.New(page.Options{
		Compare: func(context.Context) (page.Comparison, error) {
			close(entered)
			<-leave
			return page.Comparison{}, nil
		},
		Sides: func(context.Context, page.Ref) (string, string, error) {
			t.Error("Sides runs beside Compare")
			return "", "", nil
		},
	})
	done := make(chan struct{})
	go func() {
		defer close(done)
		ask(h, http.MethodGet, "/larder/compare")
	}()
	<-entered
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/larder/compare/object", nil).WithContext(ctx))
	close(leave)
	<-done
	if w.Code != http.StatusInternalServerError {
		t.Errorf("the code is %d", w.Code)
	}
}
