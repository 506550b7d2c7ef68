package access_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/larder-dev/larder/serve/access"
)

const janesToken = "token-of-jane-0123456789"

var jane = access.User{
	Username: "jane", UID: "uid-1", Groups: []string{"ops", "system:authenticated"},
	Extra: map[string]authenticationv1.ExtraValue{"scopes": {"a", "b"}},
}

func TestTokenReview(t *testing.T) {
	v := newReviewer()
	v.tokens[janesToken] = jane
	v.tokens["token-of-nobody"] = access.User{Username: "system:anonymous"}
	u := upstream(t, v, access.UpstreamOptions{})
	if got := known(t, u, withToken(janesToken), "jane"); !reflect.DeepEqual(got, jane) {
		t.Errorf("got %+v", got)
	}
	unknown(t, u, withToken("another"))
	unknown(t, u, withToken("token-of-nobody"))
	asked, _ := v.counts()
	unknown(t, u, httptest.NewRequest(http.MethodGet, "/", nil))
	refused(t, u, withToken(strings.Repeat("x", 17<<10)))
	if again, _ := v.counts(); again != asked {
		t.Error("asked upstream about a request without a token, or with one that is too long")
	}

	v.complaint = "service account token has expired"
	if err := refusal(t, u, withToken("old")); !strings.Contains(err.Error(), "has expired") {
		t.Error(err)
	}
	v.complaint = "no such token: TOKEN"
	unknown(t, u, withToken("spelled-out")) // instead of an error that contains the token
}

func TestTokenReviewAudiences(t *testing.T) {
	v := newReviewer()
	v.tokens[janesToken] = jane
	for _, of := range []struct {
		audiences []string
		ok        bool
	}{{[]string{"larder"}, true}, {[]string{"vault", "larder"}, true}, {[]string{"vault"}, false}, {nil, false}} {
		u := upstream(t, v, access.UpstreamOptions{Audiences: []string{"larder", "edge"}})
		v.set(func() { v.audiences = of.audiences })
		if of.ok {
			known(t, u, withToken(janesToken), "jane")
		} else {
			refused(t, u, withToken(janesToken))
		}
	}
}

func TestTokenReviewsAreCached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newReviewer()
		v.tokens[janesToken] = jane
		u := upstream(t, v, access.UpstreamOptions{})
		asked := func(want int) {
			t.Helper()
			if got, _ := v.counts(); got != want {
				t.Fatalf("%d TokenReviews, want %d", got, want)
			}
		}
		for range 5 {
			known(t, u, withToken(janesToken), "jane")
		}
		asked(1)
		time.Sleep(9 * time.Second)
		known(t, u, withToken(janesToken), "jane")
		asked(1)
		v.set(func() { delete(v.tokens, janesToken) })
		time.Sleep(time.Second + 1)
		unknown(t, u, withToken(janesToken))
		asked(2)
		v.set(func() { v.tokens[janesToken] = jane })
		unknown(t, u, withToken(janesToken))
		asked(2)
		time.Sleep(2*time.Second + 1)
		known(t, u, withToken(janesToken), "jane")
		asked(3)
	})
}

func TestReviewsAreBounded(t *testing.T) {
	v := newReviewer()
	v.tokens["first"] = jane
	u := upstream(t, v, access.UpstreamOptions{})
	known(t, u, withToken("first"), "jane")
	for i := range 8192 {
		token := fmt.Sprintf("token-%d", i)
		v.tokens[token] = jane
		known(t, u, withToken(token), "jane")
	}
	before, _ := v.counts()
	known(t, u, withToken("first"), "jane")
	if after, _ := v.counts(); after != before+1 {
		t.Error("more answers are kept than there should be")
	}
}

func TestSubjectAccessReview(t *testing.T) {
	v := newReviewer()
	v.allows = func(s authorizationv1.SubjectAccessReviewSpec) bool { return s.User == "jane" }
	u := upstream(t, v, access.UpstreamOptions{})
	selector := &authorizationv1.FieldSelectorAttributes{RawSelector: "spec.nodeName=n"}
	a := access.Attributes{
		User: jane, Verb: "list", Group: "apps", Version: "v1", Resource: "deployments", Subresource: "scale",
		Namespace: "web", Name: "shop", FieldSelector: selector,
		LabelSelector: &authorizationv1.LabelSelectorAttributes{RawSelector: "a=b"},
	}
	if !allowed(t, u, a) {
		t.Error("not allowed")
	}
	want := authorizationv1.SubjectAccessReviewSpec{
		User: "jane", UID: "uid-1", Groups: jane.Groups,
		Extra: map[string]authorizationv1.ExtraValue{"scopes": {"a", "b"}},
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: "list", Group: "apps", Version: "v1", Resource: "deployments", Subresource: "scale", Namespace: "web",
			Name: "shop", FieldSelector: selector, LabelSelector: a.LabelSelector,
		},
	}
	if !reflect.DeepEqual(v.last, want) {
		t.Errorf("asked %+v", v.last)
	}
	if allowed(t, u, read(user("joe"), "list", "pods", "")) {
		t.Error("allowed")
	}
	v.denies = true
	if allowed(t, u, read(jane, "watch", "pods", "")) {
		t.Error("allowed though it is denied")
	}
	v.denies = false
	if !allowed(t, u, access.Attributes{User: jane, Verb: "get", Path: "/version"}) {
		t.Error("not allowed")
	}
	if n := v.last.NonResourceAttributes; n == nil || *n != (authorizationv1.NonResourceAttributes{Path: "/version", Verb: "get"}) {
		t.Errorf("asked %+v", v.last)
	}
}

// TestDecisionsAreOfOneQuestion checks that a cached decision is used only if all attributes are equal.
func TestDecisionsAreOfOneQuestion(t *testing.T) {
	v := newReviewer()
	v.allows = func(s authorizationv1.SubjectAccessReviewSpec) bool {
		r := s.ResourceAttributes
		return s.User == "jane" && s.UID == "uid-1" && slices.Equal(s.Groups, jane.Groups) && len(s.Extra) == 1 &&
			r != nil && *r == authorizationv1.ResourceAttributes{
			Verb: "get", Group: "g", Version: "v1", Resource: "r", Namespace: "n", Name: "x",
		}
	}
	u := upstream(t, v, access.UpstreamOptions{})
	right := access.Attributes{
		User: jane, Verb: "get", Group: "g", Version: "v1", Resource: "r", Namespace: "n", Name: "x",
	}
	if !allowed(t, u, right) {
		t.Fatal("not allowed")
	}
	for i, change := range []func(*access.Attributes){
		func(a *access.Attributes) { a.User.Username = "joe" },
		func(a *access.Attributes) { a.User.UID = "" },
		func(a *access.Attributes) { a.User.Groups = []string{"opssystem:authenticated"} },
		func(a *access.Attributes) { a.User.Extra = nil },
		func(a *access.Attributes) { a.Verb = "list" },
		func(a *access.Attributes) { a.Group = "" },
		func(a *access.Attributes) { a.Version = "v2" },
		func(a *access.Attributes) { a.Group, a.Version = "gv1", "" },
		func(a *access.Attributes) { a.Resource = "rn" },
		func(a *access.Attributes) { a.Subresource = "status" },
		func(a *access.Attributes) { a.Namespace = "" },
		func(a *access.Attributes) { a.Namespace, a.Name = "nx", "" },
		func(a *access.Attributes) { a.Name = "" },
		func(a *access.Attributes) { a.Path = "/version" },
		func(a *access.Attributes) {
			a.FieldSelector = &authorizationv1.FieldSelectorAttributes{RawSelector: "a=b"}
		},
		func(a *access.Attributes) {
			a.LabelSelector = &authorizationv1.LabelSelectorAttributes{RawSelector: "a=b"}
		},
	} {
		wrong := right
		change(&wrong)
		if allowed(t, u, wrong) {
			t.Errorf("change %d: allowed by the answer to another question", i)
		}
	}
	if !allowed(t, u, right) {
		t.Error("no longer allowed")
	}
}

func TestDecisionsAreCached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newReviewer()
		yes := true
		v.allows = func(authorizationv1.SubjectAccessReviewSpec) bool { return yes }
		u := upstream(t, v, access.UpstreamOptions{})
		a := read(jane, "list", "pods", "")
		for _, step := range []struct {
			after   time.Duration
			yes     bool
			allowed bool
			asked   int
		}{
			{0, true, true, 1},
			{9 * time.Second, false, true, 1},
			{time.Second + 1, false, false, 2},
			{time.Second, true, false, 2},
			{time.Second + 1, true, true, 3},
		} {
			time.Sleep(step.after)
			v.set(func() { yes = step.yes })
			if got := allowed(t, u, a); got != step.allowed {
				t.Fatalf("%+v: got %v", step, got)
			}
			if _, asked := v.counts(); asked != step.asked {
				t.Fatalf("%+v: %d reviews", step, asked)
			}
		}
	})
}

func status(t testing.TB, err error) int32 {
	t.Helper()
	var s apierrors.APIStatus
	if !errors.As(err, &s) {
		t.Fatalf("no Status: %v", err)
	}
	if text := s.Status().Message; strings.Contains(text, "api.invalid") {
		t.Errorf("the client is told where the API server is: %s", text)
	}
	return s.Status().Code
}

func TestUnreachable(t *testing.T) {
	dial := &url.Error{Op: "Post", URL: "http://api.invalid", Err: syscall.ECONNREFUSED}
	for what, of := range map[string]struct {
		fault       error
		status      int
		body        string
		unreachable bool
		code        int32
	}{
		"refused":      {fault: dial, unreachable: true, code: 503},
		"reset":        {fault: syscall.ECONNRESET, unreachable: true, code: 503},
		"EOF":          {fault: io.EOF, unreachable: true, code: 503},
		"time-out":     {fault: context.DeadlineExceeded, unreachable: true, code: 503},
		"502":          {status: 502, body: "<html>", unreachable: true, code: 503},
		"503":          {status: 503, body: "{}", unreachable: true, code: 503},
		"504":          {status: 504, body: "{}", unreachable: true, code: 503},
		"too many":     {status: 429, body: "later", code: 429},
		"internal":     {status: 500, body: "{}", code: 500},
		"forbidden":    {status: 403, body: `{"kind":"Status","apiVersion":"v1","code":403,"reason":"Forbidden"}`, code: 500},
		"unauthorized": {status: 401, body: "{}", code: 500},
		"not found":    {status: 404, body: "{}", code: 500},
		"garbage":      {status: 201, body: "<html>", code: 500},
	} {
		t.Run(what, func(t *testing.T) {
			v := newReviewer()
			v.fault, v.status, v.body = of.fault, of.status, of.body
			for _, ask := range []func(*access.Upstream) error{
				func(u *access.Upstream) error { return refusal(t, u, withToken(janesToken)) },
				func(u *access.Upstream) error {
					d, err := u.Authorize(t.Context(), read(jane, "list", "pods", ""))
					if d.Allowed {
						t.Error("allowed")
					}
					return err
				},
			} {
				var l logs
				log := l.logger()
				err := ask(upstream(t, v, access.UpstreamOptions{Logger: &log}))
				if errors.Is(err, access.ErrUnreachable) != of.unreachable || status(t, err) != of.code {
					t.Errorf("got %v, status %d", err, status(t, err))
				}
				if strings.Contains(l.text(), "cannot be reached") != of.unreachable {
					t.Errorf("logged %q", l.text())
				}
			}
		})
	}
}

func TestReviewsTimeOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newReviewer()
		v.wait = make(chan struct{})
		u := upstream(t, v, access.UpstreamOptions{})
		began := time.Now()
		err := refusal(t, u, withToken(janesToken))
		if !errors.Is(err, access.ErrUnreachable) || time.Since(began) != 5*time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
}

// TestLostConnectionIsTriedAgain checks that a review is sent again, and no outage begins, if the connection was lost
// in a restart of the API server.
func TestLostConnectionIsTriedAgain(t *testing.T) {
	v := newReviewer()
	v.tokens[janesToken] = jane
	n := 0
	config := v.config()
	config.Transport = transport(func(r *http.Request) (*http.Response, error) {
		if n++; n == 1 {
			return nil, syscall.ECONNRESET
		}
		return v.RoundTrip(r)
	})
	u, err := access.NewUpstream(config, access.UpstreamOptions{})
	if err != nil {
		t.Fatal(err)
	}
	known(t, u, withToken(janesToken), "jane")
}

// TestOutage checks that during an outage of the API server one review every two seconds waits for the API server, and
// that all other reviews fail at once.
func TestOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newReviewer()
		v.tokens[janesToken] = jane
		var l logs
		log := l.logger()
		u := upstream(t, v, access.UpstreamOptions{Logger: &log})
		v.wait = make(chan struct{}) // no response arrives, as if the network dropped packets
		if err := refusal(t, u, withToken(janesToken)); !errors.Is(err, access.ErrUnreachable) {
			t.Fatal(err)
		}
		began := time.Now()
		for i := range 100 {
			if err := refusal(t, u, withToken(fmt.Sprint("token", i))); !errors.Is(err, access.ErrUnreachable) {
				t.Fatal(err)
			}
			if _, err := u.Authorize(t.Context(), read(jane, "list", "pods", fmt.Sprint(i))); !errors.Is(err, access.ErrUnreachable) {
				t.Fatal(err)
			}
		}
		if waited := time.Since(began); waited != 0 {
			t.Errorf("requests waited for %v", waited)
		}
		time.Sleep(2 * time.Second)
		var trial sync.WaitGroup
		trial.Go(func() { _, _, _ = u.Authenticate(withToken("trial")) })
		synctest.Wait()
		began = time.Now()
		refused(t, u, withToken(janesToken))
		if waited := time.Since(began); waited != 0 {
			t.Errorf("a second request waited for %v", waited)
		}
		v.set(func() { close(v.wait); v.wait = nil })
		trial.Wait()
		known(t, u, withToken(janesToken), "jane")
		if text := l.text(); strings.Count(text, "cannot be reached") != 1 || strings.Count(text, "reached again") != 1 {
			t.Errorf("logged %s", text)
		}
	})
}

func TestEqualReviewsAreOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newReviewer()
		v.tokens[janesToken] = jane
		v.wait = make(chan struct{})
		u := upstream(t, v, access.UpstreamOptions{})
		var all sync.WaitGroup
		gone, leave := context.WithCancel(t.Context())
		for range 99 {
			all.Go(func() { known(t, u, withToken(janesToken), "jane") })
		}
		all.Go(func() {
			_, ok, err := u.Authenticate(withToken(janesToken).WithContext(gone))
			// A canceled caller that was the first gets an error, but its call continues for the other callers.
			if ok == (err != nil) || err != nil && !errors.Is(err, context.Canceled) {
				t.Errorf("got %v, %v", ok, err)
			}
		})
		synctest.Wait()
		leave()
		synctest.Wait()
		v.set(func() { close(v.wait); v.wait = nil })
		all.Wait()
		if asked, _ := v.counts(); asked != 1 {
			t.Errorf("%d TokenReviews for one token", asked)
		}
	})
}

// TestFirstOfEqualReviewsCanceled checks that a review continues if the client that caused it disconnects while other
// clients wait for the same answer.
func TestFirstOfEqualReviewsCanceled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newReviewer()
		v.tokens[janesToken] = jane
		v.wait = make(chan struct{})
		u := upstream(t, v, access.UpstreamOptions{})
		var all sync.WaitGroup
		gone, leave := context.WithCancel(t.Context())
		all.Go(func() { _, _, _ = u.Authenticate(withToken(janesToken).WithContext(gone)) })
		synctest.Wait()
		all.Go(func() { known(t, u, withToken(janesToken), "jane") })
		synctest.Wait()
		leave()
		synctest.Wait()
		v.set(func() { close(v.wait); v.wait = nil })
		all.Wait()
	})
}

func TestReviewsUnderWayAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newReviewer()
		v.wait = make(chan struct{})
		u := upstream(t, v, access.UpstreamOptions{Timeout: time.Minute})
		var all sync.WaitGroup
		for i := range 200 {
			all.Go(func() {
				_, _, err := u.Authenticate(withToken(fmt.Sprint("token", i)))
				if status(t, err) != http.StatusTooManyRequests && !errors.Is(err, access.ErrUnreachable) {
					t.Error(err)
				}
			})
		}
		for i := range 200 {
			all.Go(func() {
				_, err := u.Authorize(t.Context(), read(jane, "list", "pods", fmt.Sprint("namespace", i)))
				if status(t, err) != http.StatusTooManyRequests && !errors.Is(err, access.ErrUnreachable) {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		if n := len(v.waiting); n != 16+64 {
			t.Errorf("%d reviews are under way, want 16 of unknown tokens and 64 others", n)
		}
		all.Wait()
	})
}
