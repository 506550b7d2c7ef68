package access_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/larder-dev/larder/serve/access"
)

// reached is a handler that responds with the name of the user whose request has reached it.
var reached = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	u, ok := access.UserFrom(r.Context())
	if !ok {
		panic("no user")
	}
	_, _ = io.WriteString(w, u.Username)
})

type byToken struct{}

func (byToken) Authenticate(r *http.Request) (access.User, bool, error) {
	name := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	return user(name), name != "", nil
}

func handler(next http.Handler, a access.Authenticator, l access.Limits) http.Handler {
	log := logr.Discard()
	return access.NewHandler(next, access.HandlerOptions{Authenticator: a, Limits: l, Logger: &log})
}

func answer(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestHandlerPassesAuthenticated(t *testing.T) {
	h := handler(reached, byToken{}, access.Limits{})
	if w := answer(h, withToken("jane")); w.Code != http.StatusOK || w.Body.String() != "jane" {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
	if _, ok := access.UserFrom(t.Context()); ok {
		t.Error("a user out of nowhere")
	}
}

func TestHandlerRejectsUnauthenticated(t *testing.T) {
	no := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("let in") })
	for name, a := range map[string]access.Authenticator{
		"none":            nil,
		"unknown":         &fake{},
		"refused":         &fake{err: errors.New("expired")},
		"both":            &fake{user: user("jane"), err: errors.New("expired")},
		"anonymous":       &fake{user: access.User{Username: "system:anonymous"}},
		"unauthenticated": &fake{user: access.User{Username: "jane", Groups: []string{"system:unauthenticated"}}},
	} {
		w := answer(handler(no, a, access.Limits{}), withToken("jane"))
		// The body and the headers are those of kube-apiserver 1.36.
		const want = `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",` +
			`"message":"Unauthorized","reason":"Unauthorized","code":401}` + "\n"
		if w.Code != http.StatusUnauthorized || w.Body.String() != want {
			t.Errorf("%s: got %d %s", name, w.Code, w.Body)
		}
		if h := w.Header(); h.Get("Content-Type") != "application/json" || h.Get("Cache-Control") != "no-cache, private" {
			t.Errorf("%s: got the header %v", name, h)
		}
	}
}

func TestHandlerWithUpstreamAway(t *testing.T) {
	v := newReviewer()
	v.fault = io.EOF
	log := logr.Discard()
	w := answer(handler(reached, upstream(t, v, access.UpstreamOptions{Logger: &log}), access.Limits{}), withToken(janesToken))
	if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") != "1" {
		t.Errorf("got %d, %v", w.Code, w.Header())
	}
	s := decodeStatus(t, w)
	if s.Reason != metav1.StatusReasonServiceUnavailable ||
		!strings.Contains(s.Message, "the API server cannot be reached") || strings.Contains(s.Message, "api.invalid") {
		t.Errorf("got %+v", s)
	}
}

func decodeStatus(t testing.TB, w *httptest.ResponseRecorder) *metav1.Status {
	t.Helper()
	object, _, err := scheme.Codecs.UniversalDeserializer().Decode(w.Body.Bytes(), nil, nil)
	if err != nil {
		t.Fatalf("%v: %q", err, w.Body)
	}
	s, ok := object.(*metav1.Status)
	if !ok || int(s.Code) != w.Code || s.Status != metav1.StatusFailure {
		t.Fatalf("with %d: %+v", w.Code, object)
	}
	return s
}

func TestErrorsAreNegotiated(t *testing.T) {
	for accept, want := range map[string]string{
		"":                                    "application/json",
		"*/*":                                 "application/json",
		"application/*":                       "application/json",
		"application/json":                    "application/json",
		"application/yaml":                    "application/yaml",
		"text/html":                           "application/json", // an error keeps its code
		"application/json;as=Table":           "application/json",
		"application/yaml;as=Table":           "application/json",
		"application/vnd.kubernetes.protobuf": "application/vnd.kubernetes.protobuf",
		"application/vnd.kubernetes.protobuf,application/json":          "application/vnd.kubernetes.protobuf",
		"application/json;as=Table;v=v1;g=meta.k8s.io,application/json": "application/json",
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		if accept != "" {
			r.Header.Set("Accept", accept)
		}
		w := answer(handler(reached, nil, access.Limits{}), r)
		s := decodeStatus(t, w)
		if s.Reason != metav1.StatusReasonUnauthorized || w.Header().Get("Content-Type") != want {
			t.Errorf("%q: got %s, %+v", accept, w.Header().Get("Content-Type"), s)
		}
	}
	for query, agent := range map[string]string{"?pretty=true": "", "": "curl/8.0"} {
		r := httptest.NewRequest(http.MethodGet, "/"+query, nil)
		r.Header.Set("User-Agent", agent)
		if w := answer(handler(reached, nil, access.Limits{}), r); !strings.Contains(w.Body.String(), "\n  \"kind\": \"Status\"") {
			t.Errorf("%q, %q: got %s", query, agent, w.Body)
		}
	}
}

func TestImpersonationIsRefused(t *testing.T) {
	no := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("let in") })
	h := handler(no, byToken{}, access.Limits{})
	for _, name := range []string{
		"Impersonate-User", "Impersonate-Group", "Impersonate-Uid", "Impersonate-Extra-Scopes", "impersonate-user",
		"IMPERSONATE-X",
	} {
		for _, value := range []string{"admin", ""} {
			r := withToken("jane")
			r.Header[name] = []string{value}
			s := decodeStatus(t, answer(h, r))
			if s.Code != http.StatusForbidden || !strings.Contains(s.Message, `User "jane" cannot impersonate resource "users"`) {
				t.Errorf("%s: got %+v", name, s)
			}
		}
	}
	r := withToken("")
	r.Header.Set("Impersonate-User", "admin")
	r.Header.Del("Authorization")
	if w := answer(h, r); w.Code != http.StatusUnauthorized {
		t.Errorf("nobody impersonates: %d", w.Code)
	}
}

func TestProxyHeadersAreDropped(t *testing.T) {
	h := handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		for name := range r.Header {
			if strings.HasPrefix(name, "X-Remote") {
				t.Errorf("%s came through", name)
			}
		}
		if r.Header.Get("Authorization") == "" {
			t.Error("the credentials, which forwarding needs, did not come through")
		}
	}), byToken{}, access.Limits{})
	r := withToken("jane")
	r.Header.Set("X-Remote-User", "admin")
	r.Header.Set("X-Remote-Extra-Scopes", "all")
	if w := answer(h, r); w.Code != http.StatusOK {
		t.Errorf("got %d", w.Code)
	}
}

type gate struct {
	open  chan struct{}
	watch bool
}

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if g.watch || r.URL.Query().Get("watch") != "" {
		if err := access.LongRunning(r.Context()); err != nil {
			access.WriteError(w, r, err)
			return
		}
	}
	select {
	case <-g.open:
	case <-r.Context().Done():
		access.WriteError(w, r, context.Cause(r.Context()))
	}
}

// send sends n concurrent requests of a user. The returned function waits, and counts the responses by status code.
func send(h http.Handler, n int, target, token string) func() map[int]int {
	var mu sync.Mutex
	var all sync.WaitGroup
	codes := map[int]int{}
	for range n {
		all.Go(func() {
			r := httptest.NewRequest(http.MethodGet, target, nil)
			r.Header.Set("Authorization", "Bearer "+token)
			w := answer(h, r)
			mu.Lock()
			defer mu.Unlock()
			codes[w.Code]++
		})
	}
	return func() map[int]int { all.Wait(); return codes }
}

func TestRequestsInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gate{open: make(chan struct{})}
		h := handler(g, byToken{}, access.Limits{Requests: 10, RequestsPerUser: 10})
		wait := send(h, 10, "/", "jane")
		synctest.Wait()
		w := answer(h, withToken("joe"))
		s := decodeStatus(t, w)
		if w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") != "1" ||
			s.Message != "Too many requests, please try again later." || s.Reason != metav1.StatusReasonTooManyRequests {
			t.Errorf("got %d, %v, %+v", w.Code, w.Header(), s)
		}
		close(g.open)
		if codes := wait(); codes[http.StatusOK] != 10 {
			t.Errorf("got %v", codes)
		}
		if w := answer(h, withToken("joe")); w.Code != http.StatusOK {
			t.Errorf("after they have ended: %d", w.Code)
		}
	})
}

// TestRequestsPerUser checks that one user's requests leave half of Limits.Requests to other users, and that
// unauthenticated requests do not count against Limits.Requests (issue 37).
func TestRequestsPerUser(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gate{open: make(chan struct{})}
		slow := &slowToken{wait: make(chan struct{})}
		h := handler(g, access.Union(byToken{}, slow), access.Limits{Requests: 10})
		wait := send(h, 50, "/", "jane")
		anonymous := send(h, 50, "/", "")
		synctest.Wait()
		owner := send(h, 1, "/", "joe")
		synctest.Wait()
		close(g.open)
		close(slow.wait)
		if codes := wait(); codes[http.StatusOK] != 5 || codes[http.StatusTooManyRequests] != 45 {
			t.Errorf("the user with 50 requests got %v", codes)
		}
		if codes := owner(); codes[http.StatusOK] != 1 {
			t.Errorf("the other user got %v", codes)
		}
		if codes := anonymous(); codes[http.StatusUnauthorized] != 50 {
			t.Errorf("unauthenticated requests got %v", codes)
		}
	})
}

type slowToken struct{ wait chan struct{} }

func (s *slowToken) Authenticate(*http.Request) (access.User, bool, error) {
	<-s.wait
	return access.User{}, false, nil
}

// TestUnauthenticatedRequestsInFlight checks that unauthenticated requests, and requests whose handler has panicked, do
// not count against Limits.Requests.
func TestUnauthenticatedRequestsInFlight(t *testing.T) {
	h := handler(reached, byToken{}, access.Limits{Requests: 1})
	for range 3 {
		if w := answer(h, httptest.NewRequest(http.MethodGet, "/", nil)); w.Code != http.StatusUnauthorized {
			t.Fatalf("got %d", w.Code)
		}
	}
	panics := handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("oh") }), byToken{}, access.Limits{Requests: 1})
	for range 3 {
		func() {
			defer func() {
				if recover() == nil {
					t.Error("too many requests, after panics")
				}
			}()
			answer(panics, withToken("jane"))
		}()
	}
}

func TestWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gate{open: make(chan struct{})}
		h := handler(g, byToken{}, access.Limits{Requests: 1, Watches: 25, WatchesPerUser: 10})
		// The requests are sent one by one, since Limits.Requests is 1.
		begin := func(token string) func() map[int]int {
			wait := send(h, 1, "/?watch=1", token)
			synctest.Wait()
			return wait
		}
		counts := map[string]map[int]int{}
		var waits []func()
		for _, token := range []string{"jane", "joe", "vera"} {
			codes := map[int]int{}
			counts[token] = codes
			for range 12 {
				wait := begin(token)
				waits = append(waits, func() {
					for c, n := range wait() {
						codes[c] += n
					}
				})
			}
		}
		// Watches do not count against Limits.Requests.
		wait := send(h, 1, "/", "jane")
		synctest.Wait()
		close(g.open)
		if codes := wait(); codes[http.StatusOK] != 1 {
			t.Errorf("a request beside the watches: %v", codes)
		}
		for _, w := range waits {
			w()
		}
		if jane, joe, vera := counts["jane"], counts["joe"], counts["vera"]; jane[200] != 10 || jane[429] != 2 ||
			joe[200] != 10 || joe[429] != 2 || vera[200] != 5 || vera[429] != 7 {
			t.Errorf("got %v", counts)
		}
		for range 10 {
			if codes := begin("jane")(); codes[http.StatusOK] != 1 {
				t.Errorf("after they have ended: %v", codes)
			}
		}
	})
}

func TestRequestTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := handler(&gate{}, byToken{}, access.Limits{})
		began := time.Now()
		w := answer(h, withToken("jane"))
		if waited := time.Since(began); w.Code != http.StatusGatewayTimeout || waited != time.Minute {
			t.Errorf("got %d after %v", w.Code, waited)
		}
		if s := decodeStatus(t, w); s.Reason != metav1.StatusReasonTimeout {
			t.Errorf("got %+v", s)
		}
		// A watch continues after RequestTime.
		g := &gate{open: make(chan struct{}), watch: true}
		h = handler(g, byToken{}, access.Limits{})
		wait := send(h, 1, "/", "jane")
		time.Sleep(time.Hour)
		close(g.open)
		if codes := wait(); codes[http.StatusOK] != 1 {
			t.Errorf("a watch of an hour: %v", codes)
		}
		// LongRunning fails if it is called after RequestTime.
		h = handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
			if err := access.LongRunning(r.Context()); !apierrors.IsTimeout(err) {
				t.Errorf("got %v", err)
			}
		}), byToken{}, access.Limits{})
		answer(h, withToken("jane"))
	})
	if err := access.LongRunning(t.Context()); err != nil {
		t.Errorf("without a handler: %v", err)
	}
}

func TestBodies(t *testing.T) {
	var read int
	h := handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		data, err := io.ReadAll(r.Body)
		read = len(data)
		if err != nil {
			w.WriteHeader(http.StatusRequestEntityTooLarge)
		}
	}), byToken{}, access.Limits{Body: 1000})
	post := func(body io.Reader) int {
		r := httptest.NewRequest(http.MethodPost, "/", body)
		r.Header.Set("Authorization", "Bearer jane")
		read = 0
		w := answer(h, r)
		return w.Code
	}
	if code := post(strings.NewReader(strings.Repeat("x", 1000))); code != http.StatusOK || read != 1000 {
		t.Errorf("a body within the limit: %d after %d bytes", code, read)
	}
	if code := post(strings.NewReader(strings.Repeat("x", 1001))); code != http.StatusRequestEntityTooLarge || read != 0 {
		t.Errorf("a body beyond: %d after %d bytes", code, read)
	}
	if code := post(io.MultiReader(bytes.NewReader(make([]byte, 1001)))); code != http.StatusRequestEntityTooLarge || read != 1000 {
		t.Errorf("a body of unknown length: %d after %d bytes", code, read)
	}
}

func TestRefusedCredentialsAreLogged(t *testing.T) {
	var l logs
	log := l.logger()
	h := access.NewHandler(reached, access.HandlerOptions{Authenticator: &fake{err: errors.New("it has expired")}, Logger: &log})
	answer(h, withToken(janesToken))
	if text := l.text(); !strings.Contains(text, "it has expired") || !strings.Contains(text, `"level"=2`) ||
		strings.Contains(text, janesToken) {
		t.Errorf("logged %s", text)
	}
}

func TestWriteErrorHidesOtherErrors(t *testing.T) {
	w := httptest.NewRecorder()
	access.WriteError(w, httptest.NewRequest(http.MethodGet, "/", nil), errors.New("open /var/lib/key: denied"))
	if s := decodeStatus(t, w); s.Code != http.StatusInternalServerError || strings.Contains(s.Message, "/var/lib") {
		t.Errorf("got %+v", s)
	}
	if !json.Valid(w.Body.Bytes()) {
		t.Error("no JSON")
	}
}
