package discovery_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/discovery"
	"github.com/larder-dev/larder/internal/facts"
)

const (
	asJSON       = "application/json"
	asAggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
)

func TestIsPath(t *testing.T) {
	for path, want := range map[string]bool{
		"/api": true, "/api/": true, "/api/v1": true, "/api/v1/": true, "/api/v1/pods": false, "/apis": true, "/apis/": true,
		"/apis/apps": true, "/apis/apps/v1": true, "/apis/apps/v1/deployments": false, "/version": true, "/version/": true,
		"/version/x": false, "/openapi/v3": true, "/openapi/v3/api/v1": true, "/openapi/v2": true, "/": false, "": false,
		"/healthz": false, "/apiv1": false,
	} {
		if got := discovery.IsPath(path); got != want {
			t.Errorf("%s: %t", path, got)
		}
	}
}

func TestDocuments(t *testing.T) {
	h := discovery.New(mirrored(), discovery.Options{Server: facts.Server{Discovery: upstream(),
		Version: &version.Info{Major: "1", Minor: "36", GitVersion: "v1.36.3"}}})
	for _, tc := range []struct{ path, accept, want string }{
		{"/api", asJSON, `{"kind":"APIVersions","versions":["v1"],"serverAddressByClientCIDRs":` +
			`[{"clientCIDR":"0.0.0.0/0","serverAddress":"example.com"}]}`},
		{"/apis/autoscaling/", "", `{"kind":"APIGroup","apiVersion":"v1","name":"autoscaling","versions":` +
			`[{"groupVersion":"autoscaling/v1","version":"v1"}],` +
			`"preferredVersion":{"groupVersion":"autoscaling/v1","version":"v1"}}`},
		{"/apis/autoscaling/", "application/yaml", "apiVersion: v1\nkind: APIGroup\nname: autoscaling\npreferredVersion:\n" +
			"  groupVersion: autoscaling/v1\n  version: v1\nversions:\n- groupVersion: autoscaling/v1\n  version: v1\n"},
		{"/api/v1", "text/html, */*;q=0.1", `{"kind":"APIResourceList","groupVersion":"v1","resources":[` +
			`{"name":"nodes","singularName":"node","namespaced":false,"kind":"Node","verbs":["get","list","watch"],` +
			`"shortNames":["no"]},{"name":"pods","singularName":"pod","namespaced":true,"kind":"Pod",` +
			`"verbs":["get","list","watch"],"shortNames":["po"],"categories":["all"]}]}`},
		{"/apis/authorization.k8s.io/v1", asJSON, `{"kind":"APIResourceList","apiVersion":"v1",` +
			`"groupVersion":"authorization.k8s.io/v1","resources":[{"name":"selfsubjectaccessreviews",` +
			`"singularName":"selfsubjectaccessreview","namespaced":false,"kind":"SelfSubjectAccessReview",` +
			`"verbs":["create"]}]}`},
		{"/api", asAggregated, `{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","metadata":{},"items":` +
			`[{"metadata":{},"versions":[{"version":"v1","resources":[{"resource":"nodes","responseKind":` +
			`{"group":"","version":"","kind":"Node"},"scope":"Cluster","singularResource":"node",` +
			`"verbs":["get","list","watch"],"shortNames":["no"]},{"resource":"pods","responseKind":` +
			`{"group":"","version":"","kind":"Pod"},"scope":"Namespaced","singularResource":"pod",` +
			`"verbs":["get","list","watch"],"shortNames":["po"],"categories":["all"]}],"freshness":"Current"}]}]}`},
		{"/version", asAggregated, "{\n  \"major\": \"1\",\n  \"minor\": \"36\",\n  \"gitVersion\": \"v1.36.3\",\n" +
			"  \"gitCommit\": \"\",\n  \"gitTreeState\": \"\",\n  \"buildDate\": \"\",\n  \"goVersion\": \"\",\n" +
			"  \"compiler\": \"\",\n  \"platform\": \"\"\n}"},
	} {
		r := ask(t, h, tc.path, "Accept", tc.accept)
		want := cmpType(tc.accept)
		if got := strings.TrimSuffix(body(t, r), "\n"); r.StatusCode != http.StatusOK || got != strings.TrimSuffix(tc.want, "\n") {
			t.Errorf("%s %s: %d\n%s, want\n%s", tc.path, tc.accept, r.StatusCode, got, tc.want)
		}
		if got := r.Header.Get("Content-Type"); got != want && tc.path != "/version" {
			t.Errorf("%s %s: %s", tc.path, tc.accept, got)
		}
	}
}

func cmpType(accept string) string {
	if strings.HasPrefix(accept, "application/") {
		return accept
	}
	return asJSON
}

func TestNotThere(t *testing.T) {
	paths := []string{"/api/v2", "/apis/policy", "/apis/policy/v1", "/apis/autoscaling/v2", "/apis//v1", "/openapi/v2",
		"/openapi", "/openapi/v3/apis/apps/v1", "/apis/apps/v1/deployments"}
	h := discovery.New(mirrored(), discovery.Options{Server: facts.Server{Discovery: upstream()}})
	for _, path := range paths {
		if r := ask(t, h, path); r.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %d", path, r.StatusCode)
		}
	}
	h = discovery.New(mirrored(), discovery.Options{NotFound: http.HandlerFunc(
		func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })})
	for _, path := range paths {
		if r := ask(t, h, path); r.StatusCode != http.StatusTeapot {
			t.Errorf("%s: %d, want NotFound's answer", path, r.StatusCode)
		}
	}
	h = discovery.New(nil, discovery.Options{})
	for path, want := range map[string]string{"/apis": `"groups":[]`, "/api": `"versions":[]`, "/openapi/v3": `{"paths":{}}`} {
		if r := ask(t, h, path); r.StatusCode != http.StatusOK || !strings.Contains(body(t, r), want) {
			t.Errorf("%s of nothing: %d", path, r.StatusCode)
		}
	}
	if r := ask(t, h, "/api/v1"); r.StatusCode != http.StatusNotFound {
		t.Errorf("/api/v1 of nothing: %d", r.StatusCode)
	}
}

// TestRefused checks that writes and unsupported media types are refused. The aggregated document is supported only at
// /api and /apis, and not in its retired version.
func TestRefused(t *testing.T) {
	h := discovery.New(mirrored(), discovery.Options{})
	beta := strings.Replace(asAggregated, "v=v2", "v=v2beta1", 1)
	for _, tc := range [][2]string{{"/apis", "text/html"}, {"/apis", beta}, {"/apis/apps", asAggregated},
		{"/api/v1", asAggregated}, {"/apis", "application/json;as=Table;v=v1;g=meta.k8s.io"}, {"/version", "application/yaml"},
		{"/apis", "application/json;stream=other"}, {"/apis", "application/cbor"}} {
		r := ask(t, h, tc[0], "Accept", tc[1])
		if r.StatusCode != http.StatusNotAcceptable || !strings.Contains(body(t, r), `"reason":"NotAcceptable"`) {
			t.Errorf("%s %s: %d", tc[0], tc[1], r.StatusCode)
		}
	}
	if r := ask(t, h, "/apis", "Accept", beta+","+asAggregated+",application/json"); r.Header.Get("Content-Type") !=
		asAggregated {
		t.Errorf("a client that takes several versions gets %s", r.Header.Get("Content-Type"))
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/apis", nil))
	if w.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", w.Code)
	}
}

func TestPretty(t *testing.T) {
	h := discovery.New(mirrored(), discovery.Options{})
	for _, tc := range []struct {
		path, accept, agent string
		pretty              bool
	}{
		{"/apis", asJSON, "kubectl/v1.36.3", false},
		{"/apis", asJSON, "curl/8", true},
		{"/apis?pretty=false", asJSON, "curl/8", false},
		{"/apis?pretty=true", asJSON, "", true},
		{"/apis", asJSON + ";pretty=1", "", true},
		{"/apis?pretty=1", asAggregated, "", true},
	} {
		r := ask(t, h, tc.path, "Accept", tc.accept, "User-Agent", tc.agent)
		if got := strings.Contains(body(t, r), "\n  \"kind\""); got != tc.pretty || r.StatusCode != http.StatusOK {
			t.Errorf("%+v: %d, %t", tc, r.StatusCode, got)
		}
	}
}

// TestETag checks that the ETag of the aggregated document changes only with the contents.
func TestETag(t *testing.T) {
	all := mirrored()
	h := discovery.New(all, discovery.Options{})
	r := ask(t, h, "/apis", "Accept", asAggregated)
	etag := r.Header.Get("ETag")
	if etag == "" || r.Header.Get("Vary") != "Accept" || r.Header.Get("Cache-Control") != "public" {
		t.Errorf("%v", r.Header)
	}
	slices.Reverse(all)
	if r = ask(t, discovery.New(all, discovery.Options{}), "/apis", "Accept", asAggregated, "If-None-Match",
		etag); r.StatusCode != http.StatusNotModified || body(t, r) != "" {
		t.Errorf("the same again: %d", r.StatusCode)
	}
	if r = ask(t, discovery.New(all[1:], discovery.Options{}), "/apis", "Accept", asAggregated, "If-None-Match",
		etag); r.StatusCode != http.StatusOK {
		t.Errorf("another one: %d", r.StatusCode)
	}
	if r = ask(t, h, "/apis"); r.Header.Get("ETag") != "" || r.Header.Get("Cache-Control") != "no-cache, private" {
		t.Errorf("/apis: %v", r.Header)
	}
}

// TestOrder checks that groups are in the server's order, or in Kubernetes' usual order if the server's is unknown.
func TestOrder(t *testing.T) {
	for name, tc := range map[string]struct {
		known *facts.Discovery
		want  string
	}{
		"known": {upstream(), "apps/v1 authorization.k8s.io/v1 autoscaling/v1 batch/v1 " +
			"example.org/v1beta1 example.org/v1 example.org/v2alpha1 a.new.group/v1"},
		"not known": {nil, "apps/v1 autoscaling/v1 batch/v1 authorization.k8s.io/v1 a.new.group/v1 " +
			"example.org/v1 example.org/v1beta1 example.org/v2alpha1"},
	} {
		h := discovery.New(mirrored(), discovery.Options{Server: facts.Server{Discovery: tc.known}})
		list := body(t, ask(t, h, "/apis"))
		var got []string
		for _, part := range strings.Split(list, `"versions":[`)[1:] {
			versions, _, _ := strings.Cut(part, "]")
			for _, v := range strings.Split(versions, `"groupVersion":"`)[1:] {
				gv, _, _ := strings.Cut(v, `"`)
				got = append(got, gv)
			}
		}
		if strings.Join(got, " ") != tc.want {
			t.Errorf("%s: %s, want\n%s", name, strings.Join(got, " "), tc.want)
		}
	}
}

// TestOmitted checks that a collection that is stored without a kind gets the kind of the server's discovery, and is
// omitted if the discovery lacks the kind.
func TestOmitted(t *testing.T) {
	nameless := func(gvr string) discovery.Resource {
		r := resource(gvr, "", false)
		r.ResourceInfo = entry.ResourceInfo{}
		return r
	}
	h := discovery.New(append(mirrored(), nameless("apps/v1/replicasets"), nameless("apps/v1/others"),
		nameless("apps/v1/deployments"), nameless("apps/v1/others")),
		discovery.Options{Server: facts.Server{Discovery: upstream()}})
	if got := h.Omitted(); len(got) != 1 || got[0].Resource != "others" {
		t.Errorf("%v", got)
	}
	got := body(t, ask(t, h, "/apis/apps/v1"))
	if !strings.Contains(got, `{"name":"replicasets","singularName":"replicaset","namespaced":true,"kind":"ReplicaSet",`) ||
		strings.Contains(got, "others") || strings.Count(got, `"name":"deployments"`) != 1 {
		t.Error(got)
	}
}

// TestComplete checks for which paths the stored facts suffice to answer as the API server does. Package serve forwards
// requests for other paths to the API server.
func TestComplete(t *testing.T) {
	_, read := schemas()
	version := &version.Info{Major: "1"}
	every := map[schema.GroupVersion]string{}
	for _, r := range mirrored() {
		every[r.GroupVersion()] = "HASH"
	}
	one := map[schema.GroupVersion]string{{Group: "apps", Version: "v1"}: "HASH"}
	for name, tt := range map[string]struct {
		server facts.Server
		want   []string
	}{
		"nothing":      {facts.Server{}, nil},
		"the version":  {facts.Server{Version: version}, []string{"/version"}},
		"schemas only": {facts.Server{Schemas: every}, nil},
		"discovery only": {facts.Server{Discovery: upstream()},
			[]string{"/api", "/apis", "/api/v1", "/apis/apps", "/apis/apps/v1"}},
		"one schema": {facts.Server{Discovery: upstream(), Schemas: one},
			[]string{"/api", "/apis", "/api/v1", "/apis/apps", "/apis/apps/v1", "/openapi/v3/apis/apps/v1"}},
		"all": {facts.Server{Discovery: upstream(), Schemas: every, Version: version},
			[]string{"/version", "/api", "/apis", "/api/v1", "/apis/apps", "/apis/apps/v1", "/openapi/v3",
				"/openapi/v3/api/v1", "/openapi/v3/apis/apps/v1"}},
	} {
		h := discovery.New(mirrored(), discovery.Options{Server: tt.server, OpenAPI: read})
		for _, path := range []string{"/version", "/api", "/apis", "/api/v1", "/apis/apps", "/apis/apps/v1", "/openapi/v3",
			"/openapi/v3/api/v1", "/openapi/v3/apis/apps/v1", "/openapi/v2", "/api/v2", "/apis/apps/v2", "/apis/other"} {
			if got := h.Complete(path); got != slices.Contains(tt.want, path) {
				t.Errorf("%s: %s: complete %t", name, path, got)
			}
		}
	}
}

// TestSchemas checks that the OpenAPI index lists the served group-versions with the server's hashes, and that schemas
// are returned as stored.
func TestSchemas(t *testing.T) {
	hashes, read := schemas()
	h := discovery.New(mirrored(), discovery.Options{Server: facts.Server{Schemas: hashes}, OpenAPI: read})
	index := ask(t, h, "/openapi/v3")
	if got, want := body(t, index), `{"paths":{"api/v1":{"serverRelativeURL":"/openapi/v3/api/v1?hash=HASH1"},`+
		`"apis/apps/v1":{"serverRelativeURL":"/openapi/v3/apis/apps/v1?hash=HASH2"}}}`; got != want {
		t.Errorf("%s, want\n%s", got, want)
	}
	if r := ask(t, h, "/openapi/v3", "If-None-Match", index.Header.Get("ETag")); r.StatusCode != http.StatusNotModified {
		t.Errorf("the index again: %d", r.StatusCode)
	}
	const apps, document = "/openapi/v3/apis/apps/v1", `{"openapi":"3.0.0","of":"apps/v1"}`
	for _, tc := range []struct {
		path, accept, match string
		code                int
		cached              bool
	}{
		{path: apps, accept: asJSON, code: http.StatusOK},
		{path: apps, code: http.StatusOK},
		{path: apps + "?hash=HASH2", accept: "application/com.github.proto-openapi.spec.v3@v1.0+protobuf,application/json",
			code: http.StatusOK, cached: true},
		{path: apps, match: `"HASH2"`, code: http.StatusNotModified},
		{path: apps + "?hash=OLD", code: http.StatusMovedPermanently},
		{path: apps, accept: "application/com.github.proto-openapi.spec.v3@v1.0+protobuf", code: http.StatusNotAcceptable},
		{path: "/openapi/v3/apis/policy/v1", code: http.StatusNotFound},
		{path: "/openapi/v3/apis/batch/v1", code: http.StatusNotFound},
	} {
		r := ask(t, h, tc.path, "Accept", tc.accept, "If-None-Match", tc.match)
		cached := r.Header.Get("Cache-Control") == "public, immutable" && r.Header.Get("Expires") != ""
		if r.StatusCode != tc.code || cached != tc.cached || r.StatusCode == http.StatusOK &&
			(body(t, r) != document || r.Header.Get("ETag") != `"HASH2"` || r.Header.Get("Vary") != "Accept") {
			t.Errorf("%+v: %d, %v", tc, r.StatusCode, r.Header)
		}
		if at := r.Header.Get("Location"); tc.code == http.StatusMovedPermanently && at != apps+"?hash=HASH2" {
			t.Errorf("%+v: %s", tc, at)
		}
	}
	broken := discovery.New(mirrored(), discovery.Options{Server: facts.Server{Schemas: hashes},
		OpenAPI: func(context.Context, schema.GroupVersion) ([]byte, string, error) {
			return nil, "", errors.New("damaged")
		}})
	if r := ask(t, broken, apps); r.StatusCode != http.StatusInternalServerError {
		t.Errorf("one that cannot be read: %d", r.StatusCode)
	}
}
