package access_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/larder-dev/larder/serve/access"
)

func accessReview(verb, resource string) *authorizationv1.SelfSubjectAccessReview {
	name, group, _ := strings.Cut(resource, ".")
	name, sub, _ := strings.Cut(name, "/")
	return &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: verb, Group: group, Resource: name, Subresource: sub, Namespace: "web",
		},
	}}
}

func TestSelfSubjectAccessReview(t *testing.T) {
	yes := fixed{Decision: access.Decision{Allowed: true, Reason: "because"}}
	v := access.Reviews{Authorizer: yes}
	for _, c := range []struct {
		verb, resource string
		here, forwards bool
	}{
		{"get", "pods", true, true}, {"list", "deployments.apps", true, true}, {"watch", "*", true, true}, {"get", "pods/status", true, true},
		{"create", "pods", false, true}, {"delete", "pods", false, true}, {"*", "pods", false, true}, {"", "pods", false, true},
		{"get", "pods/log", false, true}, {"get", "pods/exec", false, true}, {"create", "pods/exec", false, true},
		{"impersonate", "users", false, true},
	} {
		for forwards, want := range map[bool]bool{false: c.here, true: c.forwards} {
			v.Forwards = forwards
			got, err := v.SelfSubjectAccessReview(t.Context(), jane, accessReview(c.verb, c.resource))
			if err != nil || got.Status.Allowed != want || got.Status.Denied || got.Status.Reason == "" {
				t.Errorf("%s %s, forwards %v: %+v, %v", c.verb, c.resource, forwards, got.Status, err)
			}
		}
	}

	v = access.Reviews{Authorizer: fixed{Decision: access.Decision{Reason: "no rule"}}}
	asked := accessReview("list", "pods")
	got, err := v.SelfSubjectAccessReview(t.Context(), jane, asked)
	want := asked.DeepCopy()
	want.Status.Reason = "no rule"
	if err != nil || !reflect.DeepEqual(got, want) || asked.Status.Reason != "" {
		t.Errorf("got %+v, %v", got, err)
	}

	review := accessReview("delete", "pods") // the status in the request is ignored
	review.Status = authorizationv1.SubjectAccessReviewStatus{Allowed: true, EvaluationError: "x"}
	got, err = v.SelfSubjectAccessReview(t.Context(), jane, review)
	if err != nil || got.Status.Allowed || got.Status.EvaluationError != "" {
		t.Errorf("got %+v, %v", got, err)
	}

	v.Authorizer = fixed{Decision: access.Decision{Allowed: true}, err: errors.New("the token is token-of-jane")}
	got, err = v.SelfSubjectAccessReview(t.Context(), jane, asked)
	if err != nil || got.Status.Allowed || got.Status.EvaluationError == "" || strings.Contains(got.Status.EvaluationError, "token-of") {
		t.Errorf("got %+v, %v", got, err)
	}
}

// TestSelfSubjectAccessReviewAttributes checks that the authorizer receives all attributes of a
// SelfSubjectAccessReview, and the user who asks.
func TestSelfSubjectAccessReviewAttributes(t *testing.T) {
	v := newReviewer()
	v.allows = func(authorizationv1.SubjectAccessReviewSpec) bool { return true }
	reviews := access.Reviews{Authorizer: upstream(t, v, access.UpstreamOptions{}), Forwards: true}
	asked := &authorizationv1.ResourceAttributes{
		Verb: "create", Group: "apps", Version: "v1", Resource: "deployments", Subresource: "scale",
		Namespace: "n", Name: "x",
		FieldSelector: &authorizationv1.FieldSelectorAttributes{RawSelector: "a=b"},
		LabelSelector: &authorizationv1.LabelSelectorAttributes{RawSelector: "c=d"},
	}
	for _, spec := range []authorizationv1.SelfSubjectAccessReviewSpec{
		{ResourceAttributes: asked},
		{NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: "/metrics", Verb: "post"}},
	} {
		answer, err := reviews.SelfSubjectAccessReview(t.Context(), jane, &authorizationv1.SelfSubjectAccessReview{Spec: spec})
		if err != nil || !answer.Status.Allowed || v.last.User != "jane" ||
			!reflect.DeepEqual(v.last.ResourceAttributes, spec.ResourceAttributes) ||
			!reflect.DeepEqual(v.last.NonResourceAttributes, spec.NonResourceAttributes) {
			t.Errorf("asked %+v; %v", v.last, err)
		}
	}
}

func TestSelfSubjectAccessReviewIsInvalid(t *testing.T) {
	v := access.Reviews{Authorizer: fixed{Decision: access.Decision{Allowed: true}}}
	both := accessReview("get", "pods")
	both.Spec.NonResourceAttributes = &authorizationv1.NonResourceAttributes{Path: "/"}
	named := accessReview("get", "pods")
	named.Name = "x"
	for _, review := range []*authorizationv1.SelfSubjectAccessReview{
		{}, both, named,
		{Spec: authorizationv1.SelfSubjectAccessReviewSpec{NonResourceAttributes: &authorizationv1.NonResourceAttributes{}}},
	} {
		if _, err := v.SelfSubjectAccessReview(t.Context(), jane, review); !apierrors.IsInvalid(err) {
			t.Errorf("%+v: %v", review.Spec, err)
		}
	}
}

func TestSelfSubjectRulesReview(t *testing.T) {
	all := []string{"get", "list", "watch"}
	rule := func(group, resource string) authorizationv1.ResourceRule {
		return authorizationv1.ResourceRule{Verbs: all, APIGroups: []string{group}, Resources: []string{resource}}
	}
	o := offline(t, accessFile)
	token, err := access.NewStaticToken(access.NewToken(), "larder")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		authorizer access.Authorizer
		user       access.User
		namespace  string
		rules      []authorizationv1.ResourceRule
		paths      bool
		incomplete bool
		caveat     string
	}{
		{authorizer: o, user: user("jane"), namespace: "web", paths: true, rules: []authorizationv1.ResourceRule{
			rule("", "pods"), rule("apps", "deployments"), rule("apps", "replicasets"), rule("", "nodes"),
			rule("", "nodes"), rule("", "namespaces"),
		}},
		{authorizer: o, user: user("jane"), namespace: "other", paths: true, rules: []authorizationv1.ResourceRule{
			rule("", "nodes"), rule("", "namespaces"),
		}},
		{authorizer: o, user: user("joe", "ops"), namespace: "x", paths: true, caveat: "without Secrets",
			rules: []authorizationv1.ResourceRule{rule("*", "*")}},
		{authorizer: o, user: user("vera", "guards"), namespace: "vault", paths: true, caveat: "without Secrets",
			rules: []authorizationv1.ResourceRule{rule("*", "*"), rule("", "secrets"), rule("example.com", "vaults")}},
		{authorizer: o, user: user("stranger"), namespace: "web"},
		{authorizer: access.Nothing{}, user: jane, namespace: "web"},
		{authorizer: access.Everything{User: token.User()}, user: token.User(), namespace: "web", paths: true,
			caveat: "without Secrets", rules: []authorizationv1.ResourceRule{rule("*", "*")}},
		{authorizer: access.Everything{User: token.User(), WithSecrets: true}, user: token.User(), namespace: "web",
			paths: true, rules: []authorizationv1.ResourceRule{rule("*", "*")}},
		{authorizer: access.Everything{User: token.User()}, user: jane, namespace: "web"},
		{authorizer: access.FallbackAuthorizer(o, o), user: jane, namespace: "web", incomplete: true, caveat: "cannot list"},
		{authorizer: access.Everything{User: token.User(), Others: fixed{}}, user: jane, namespace: "web",
			incomplete: true, caveat: "cannot list"},
	} {
		review := &authorizationv1.SelfSubjectRulesReview{}
		review.Spec.Namespace = c.namespace
		got, err := access.Reviews{Authorizer: c.authorizer}.SelfSubjectRulesReview(t.Context(), c.user, review)
		if err != nil {
			t.Fatal(err)
		}
		if c.rules == nil {
			c.rules = []authorizationv1.ResourceRule{}
		}
		s := got.Status
		if diff := cmp.Diff(c.rules, s.ResourceRules); diff != "" || (len(s.NonResourceRules) > 0) != c.paths ||
			s.NonResourceRules == nil || s.Incomplete != c.incomplete || !strings.Contains(s.EvaluationError, c.caveat) ||
			(s.EvaluationError != "") != (c.caveat != "") {
			t.Errorf("%T, %s in %s: got %+v\n%s", c.authorizer, c.user.Username, c.namespace, s, diff)
		}
	}
	if _, err := (access.Reviews{Authorizer: o}).SelfSubjectRulesReview(t.Context(), jane, &authorizationv1.SelfSubjectRulesReview{}); !apierrors.IsBadRequest(err) {
		t.Errorf("without a namespace: %v", err)
	}
}

func TestSelfSubjectReview(t *testing.T) {
	got, err := access.Reviews{}.SelfSubjectReview(t.Context(), jane, &authenticationv1.SelfSubjectReview{})
	if err != nil || !reflect.DeepEqual(got.Status.UserInfo, jane) || got.CreationTimestamp.IsZero() {
		t.Errorf("got %+v, %v", got, err)
	}
}

const (
	accessPath = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
	rulesPath  = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
	selfPath   = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
)

func encode(t testing.TB, mediaType string, object runtime.Object) []byte {
	t.Helper()
	info, ok := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), mediaType)
	if !ok {
		t.Fatal(mediaType)
	}
	data, err := runtime.Encode(scheme.Codecs.EncoderForVersion(info.Serializer, schema.GroupVersions{
		authorizationv1.SchemeGroupVersion, authenticationv1.SchemeGroupVersion,
	}), object)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestReviewsOverHTTP(t *testing.T) {
	h := handler(access.Reviews{Authorizer: fixed{Decision: access.Decision{Allowed: true, Reason: "so"}}}, byToken{}, access.Limits{})
	rules := &authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: "web"}}
	formats := []string{runtime.ContentTypeJSON, runtime.ContentTypeYAML, runtime.ContentTypeProtobuf}
	for path, object := range map[string]runtime.Object{
		accessPath: accessReview("list", "pods"), rulesPath: rules, selfPath: &authenticationv1.SelfSubjectReview{},
	} {
		for _, from := range formats {
			for _, to := range formats {
				r := httptest.NewRequest(http.MethodPost, path, bytes.NewReader(encode(t, from, object)))
				r.Header.Set("Authorization", "Bearer jane")
				r.Header.Set("Content-Type", from+";charset=utf-8")
				r.Header.Set("Accept", to)
				w := answer(h, r)
				if w.Code != http.StatusCreated || w.Header().Get("Content-Type") != to {
					t.Fatalf("%s from %s to %s: %d %s", path, from, to, w.Code, w.Body)
				}
				got, _, err := scheme.Codecs.UniversalDeserializer().Decode(w.Body.Bytes(), nil, nil)
				if err != nil || reflect.TypeOf(got) != reflect.TypeOf(object) {
					t.Fatalf("%s from %s to %s: %T, %v", path, from, to, got, err)
				}
				switch got := got.(type) {
				case *authorizationv1.SelfSubjectAccessReview:
					if !got.Status.Allowed || got.Spec.ResourceAttributes.Resource != "pods" {
						t.Errorf("got %+v", got)
					}
				case *authenticationv1.SelfSubjectReview:
					if got.Status.UserInfo.Username != "jane" {
						t.Errorf("got %+v", got)
					}
				}
			}
		}
	}
}

func TestReviewsOverHTTPAreRefused(t *testing.T) {
	h := handler(access.Reviews{Authorizer: access.Nothing{}}, byToken{}, access.Limits{})
	const good = `{"kind":"SelfSubjectReview","apiVersion":"authentication.k8s.io/v1"}`
	for what, c := range map[string]struct {
		method, path, contentType string
		body                      io.Reader
		code                      int
	}{
		"list":          {method: "GET", path: selfPath, code: 405},
		"delete":        {method: "DELETE", path: accessPath, code: 405},
		"other version": {method: "POST", path: strings.Replace(selfPath, "v1", "v9", 1), code: 404},
		"other group":   {method: "POST", path: strings.Replace(selfPath, "authentication", "x", 1), code: 404},
		"others":        {method: "POST", path: strings.Replace(accessPath, "self", "", 1), code: 404},
		"a name":        {method: "POST", path: selfPath + "/x", code: 404},
		"core":          {method: "POST", path: "/api/v1/pods", code: 404},
		"root":          {method: "POST", path: "/", code: 404},
		"other root":    {method: "POST", path: strings.Replace(selfPath, "/apis/", "/x/", 1), code: 404},
		"empty":         {method: "POST", path: selfPath, code: 400},
		"garbage":       {method: "POST", path: selfPath, body: strings.NewReader("{"), code: 400},
		"other kind":    {method: "POST", path: accessPath, body: strings.NewReader(good), code: 400},
		"form":          {method: "POST", path: selfPath, body: strings.NewReader("a=b"), contentType: "application/x-www-form-urlencoded", code: 415},
		"odd":           {method: "POST", path: selfPath, body: strings.NewReader(good), contentType: ";;", code: 415},
		"wrong format":  {method: "POST", path: selfPath, body: strings.NewReader(good), contentType: runtime.ContentTypeProtobuf, code: 400},
		"too large":     {method: "POST", path: selfPath, body: strings.NewReader(good + strings.Repeat(" ", 64<<10)), code: 413},
		"endless":       {method: "POST", path: selfPath, body: io.LimitReader(zeros{}, 1<<30), code: 413},
		"invalid":       {method: "POST", path: accessPath, body: strings.NewReader(`{}`), code: 422},
		"no namespace":  {method: "POST", path: rulesPath, body: strings.NewReader(`{}`), code: 400},
	} {
		t.Run(what, func(t *testing.T) {
			r := httptest.NewRequest(c.method, c.path, c.body)
			r.Header.Set("Authorization", "Bearer jane")
			if c.contentType != "" {
				r.Header.Set("Content-Type", c.contentType)
			}
			w := answer(h, r)
			if w.Code != c.code {
				t.Errorf("got %d %s", w.Code, w.Body)
			}
			if s := decodeStatus(t, w); s.Reason == metav1.StatusReasonUnknown {
				t.Errorf("no reason in %+v", s)
			}
		})
	}
	// kubectl create --raw may send a body without a kind.
	r := httptest.NewRequest(http.MethodPost, selfPath, strings.NewReader("{}"))
	r.Header.Set("Authorization", "Bearer jane")
	if w := answer(h, r); w.Code != http.StatusCreated {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
	r = httptest.NewRequest(http.MethodPost, selfPath, strings.NewReader("{}"))
	r.Header.Set("Authorization", "Bearer jane")
	r.Header.Set("Accept", "text/html")
	if w := answer(h, r); decodeStatus(t, w).Reason != metav1.StatusReasonNotAcceptable {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
	// The request has no user, since no handler authenticates it.
	if w := answer(access.Reviews{Authorizer: access.Nothing{}}, r); w.Code != http.StatusUnauthorized {
		t.Errorf("got %d", w.Code)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }
