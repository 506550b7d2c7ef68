package access_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/client-go/rest"

	"github.com/larder-dev/larder/serve/access"
)

type logs struct {
	mu    sync.Mutex
	lines []string
}

func (l *logs) logger() logr.Logger {
	return funcr.New(func(prefix, args string) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.lines = append(l.lines, prefix+" "+args)
	}, funcr.Options{Verbosity: 100})
}

func (l *logs) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.lines, "\n")
}

func withToken(token string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/api/v1/pods", nil)
	r.Header.Set("Authorization", "Bearer "+token)
	return r
}

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func file(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	write(t, path, text)
	return path
}

func known(t testing.TB, a access.Authenticator, r *http.Request, name string) access.User {
	t.Helper()
	user, ok, err := a.Authenticate(r)
	if !ok || err != nil || user.Username != name {
		t.Fatalf("got the user %q, %v, %v; want %q", user.Username, ok, err, name)
	}
	return user
}

func unknown(t testing.TB, a access.Authenticator, r *http.Request) {
	t.Helper()
	if user, ok, err := a.Authenticate(r); ok || err != nil || user.Username != "" {
		t.Fatalf("got the user %q, %v, %v; want nobody", user.Username, ok, err)
	}
}

func refused(t testing.TB, a access.Authenticator, r *http.Request) {
	t.Helper()
	_ = refusal(t, a, r)
}

func refusal(t testing.TB, a access.Authenticator, r *http.Request) error {
	t.Helper()
	user, ok, err := a.Authenticate(r)
	if ok || err == nil || user.Username != "" {
		t.Fatalf("got the user %q, %v, %v; want an error", user.Username, ok, err)
	}
	return err
}

// reviewer is a fake API server that only answers reviews. It is also an http.RoundTripper that needs no network, so
// that tests can use a fake clock.
type reviewer struct {
	tokens map[string]access.User
	allows func(authorizationv1.SubjectAccessReviewSpec) bool

	mu        sync.Mutex
	token     int
	access    int
	last      authorizationv1.SubjectAccessReviewSpec
	fault     error
	status    int
	body      string
	wait      chan struct{}
	waiting   chan struct{}
	audiences []string
	complaint string
	// denies is true if a denial sets Denied as well, as some authorizers do.
	denies bool
}

func newReviewer() *reviewer {
	return &reviewer{
		tokens: map[string]access.User{}, waiting: make(chan struct{}, 1000),
		allows: func(authorizationv1.SubjectAccessReviewSpec) bool { return false },
	}
}

func (v *reviewer) set(f func()) {
	v.mu.Lock()
	defer v.mu.Unlock()
	f()
}

func (v *reviewer) counts() (token, access int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.token, v.access
}

func (v *reviewer) config() *rest.Config {
	return &rest.Config{Host: "http://api.invalid", Transport: v, BearerToken: "larders-own-token-0123456789abcdef"}
}

func (v *reviewer) RoundTrip(r *http.Request) (*http.Response, error) {
	v.mu.Lock()
	fault, wait := v.fault, v.wait
	v.mu.Unlock()
	if wait != nil {
		v.waiting <- struct{}{}
		select {
		case <-wait:
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
	w := httptest.NewRecorder()
	if fault == nil {
		v.ServeHTTP(w, r)
	} else {
		v.count(r)
		return nil, fault
	}
	return w.Result(), nil
}

func (v *reviewer) count(r *http.Request) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if strings.HasSuffix(r.URL.Path, "/tokenreviews") {
		v.token++
	} else {
		v.access++
	}
}

func (v *reviewer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	v.count(r)
	v.mu.Lock()
	defer v.mu.Unlock()
	body, err := io.ReadAll(r.Body)
	if err == nil && v.status != 0 {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(v.status)
		_, _ = io.WriteString(w, v.body)
		return
	}
	var answer any
	switch {
	case err != nil:
	case strings.HasSuffix(r.URL.Path, "/apis/authentication.k8s.io/v1/tokenreviews"):
		var review authenticationv1.TokenReview
		err = json.Unmarshal(body, &review)
		user, ok := v.tokens[review.Spec.Token]
		review.Status = authenticationv1.TokenReviewStatus{Authenticated: ok, User: user, Audiences: v.audiences}
		if !ok {
			review.Status.Error = strings.ReplaceAll(v.complaint, "TOKEN", review.Spec.Token)
		}
		answer = review
	case strings.HasSuffix(r.URL.Path, "/apis/authorization.k8s.io/v1/subjectaccessreviews"):
		var review authorizationv1.SubjectAccessReview
		err = json.Unmarshal(body, &review)
		v.last = review.Spec
		review.Status.Allowed = v.allows(review.Spec)
		review.Status.Denied = v.denies
		review.Status.Reason = "RBAC: because"
		answer = review
	default:
		err = errors.New("no such path: " + r.URL.Path)
	}
	if err == nil {
		body, err = json.Marshal(answer)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	_, _ = io.Copy(w, bytes.NewReader(body))
}

func upstream(t testing.TB, v *reviewer, o access.UpstreamOptions) *access.Upstream {
	t.Helper()
	u, err := access.NewUpstream(v.config(), o)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func user(name string, groups ...string) access.User {
	return access.User{Username: name, Groups: append(slices.Clone(groups), "system:authenticated")}
}

func read(u access.User, verb, resource, namespace string) access.Attributes {
	name, group, _ := strings.Cut(resource, ".")
	return access.Attributes{User: u, Verb: verb, Group: group, Version: "v1", Resource: name, Namespace: namespace}
}

// allowed returns whether the authorizer allows a request. An error, or a denial without a reason, fails the test.
func allowed(t testing.TB, a access.Authorizer, attributes access.Attributes) bool {
	t.Helper()
	d, err := a.Authorize(t.Context(), attributes)
	if err != nil {
		t.Fatal(err)
	}
	if !d.Allowed && d.Reason == "" {
		t.Errorf("no reason for refusing %s %s", attributes.Verb, attributes.Resource)
	}
	return d.Allowed
}

type fixed struct {
	access.Decision
	err error
}

func (f fixed) Authorize(context.Context, access.Attributes) (access.Decision, error) {
	return f.Decision, f.err
}
