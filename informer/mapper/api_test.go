package mapper

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/go-logr/logr"
	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/larder-dev/larder/store"
)

// api is an http.RoundTripper that answers discovery requests like an API server.
type api struct {
	mu     sync.Mutex
	groups []apidiscoveryv2.APIGroupDiscovery
	// err is the error of every request; nil if the server works.
	err error
	// junk is the body of every answer, in place of the discovery document; "" sends the document.
	junk     string
	hangs    bool
	requests int
}

func newAPI() *api {
	a := &api{}
	a.set("", "v1", "Pod", "pods", apidiscoveryv2.ScopeNamespace)
	a.set("", "v1", "Node", "nodes", apidiscoveryv2.ScopeCluster)
	a.set("apps", "v1", "Deployment", "deployments", apidiscoveryv2.ScopeNamespace)
	a.set("apps", "v1beta1", "Deployment", "deployments", apidiscoveryv2.ScopeNamespace)
	return a
}

func (a *api) set(groupName, versionName, kind, plural string, scope apidiscoveryv2.ResourceScope) {
	a.mu.Lock()
	defer a.mu.Unlock()
	v := a.versionLocked(groupName, versionName)
	v.Resources = append(v.Resources, apidiscoveryv2.APIResourceDiscovery{
		Resource: plural, SingularResource: plural[:len(plural)-1], Scope: scope, Verbs: []string{"list"},
		ResponseKind: &metav1.GroupVersionKind{Group: groupName, Version: versionName, Kind: kind},
		Subresources: []apidiscoveryv2.APISubresourceDiscovery{{
			Subresource: "scale", ResponseKind: &metav1.GroupVersionKind{Group: "autoscaling", Version: "v1", Kind: "Scale"},
		}},
	})
}

func (a *api) versionLocked(groupName, versionName string) *apidiscoveryv2.APIVersionDiscovery {
	for i := range a.groups {
		if g := &a.groups[i]; g.Name == groupName {
			for j := range g.Versions {
				if g.Versions[j].Version == versionName {
					return &g.Versions[j]
				}
			}
			g.Versions = append(g.Versions, apidiscoveryv2.APIVersionDiscovery{Version: versionName})
			return &g.Versions[len(g.Versions)-1]
		}
	}
	a.groups = append(a.groups, apidiscoveryv2.APIGroupDiscovery{ObjectMeta: metav1.ObjectMeta{Name: groupName}})
	return a.versionLocked(groupName, versionName)
}

// fresh sets the freshness of a group-version in the discovery document. An aggregated API that does not answer is
// stale.
func (a *api) fresh(groupName, versionName string, fresh bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	v := a.versionLocked(groupName, versionName)
	v.Freshness = apidiscoveryv2.DiscoveryFreshnessStale
	if fresh {
		v.Freshness = apidiscoveryv2.DiscoveryFreshnessCurrent
	}
}

func (a *api) change(fn func(a *api)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	fn(a)
}

func (a *api) asked() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.requests
}

// RoundTrip answers /api and /apis with the aggregated discovery of Kubernetes 1.26 and later.
func (a *api) RoundTrip(r *http.Request) (*http.Response, error) {
	a.mu.Lock()
	a.requests++
	err, hangs, junk := a.err, a.hangs, a.junk
	var list apidiscoveryv2.APIGroupDiscoveryList
	for _, g := range a.groups {
		if (g.Name == "") == (r.URL.Path == "/api") {
			list.Items = append(list.Items, *g.DeepCopy())
		}
	}
	a.mu.Unlock()
	switch {
	case hangs:
		<-r.Context().Done()
		return nil, r.Context().Err()
	case err != nil:
		return nil, err
	}
	body, err := json.Marshal(list)
	contentType := discovery.AcceptV2
	if junk != "" {
		body, contentType = []byte(junk), "application/json"
	}
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {contentType}},
		Body: io.NopCloser(bytes.NewReader(body)), Request: r,
	}, err
}

type life struct {
	*Mapper
	t  *testing.T
	st *store.Store
	// written is the number of bytes that the store had written when the test last looked.
	written int64
	stop    func()
}

// begin opens the store file at path and makes a mapper. It starts the mapper's Run if run is true.
func begin(t *testing.T, a *api, path string, run bool) *life {
	t.Helper()
	quiet := logr.Discard()
	return beginOn(t, a, path, store.Options{Logger: &quiet}, run)
}

func beginOn(t *testing.T, a *api, path string, o store.Options, run bool) *life {
	t.Helper()
	st, err := store.Open(path, o)
	if err != nil {
		t.Fatal(err)
	}
	m, err := New(&rest.Config{Host: "http://server", QPS: -1}, &http.Client{Transport: a}, st)
	if err != nil {
		t.Fatal(err)
	}
	l := &life{Mapper: m, t: t, st: st, written: st.Written(), stop: func() {}}
	if run {
		l.run()
	}
	return l
}

func (l *life) run() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.Run(ctx)
	}()
	l.stop = func() {
		cancel()
		<-done
	}
}

func (l *life) end() {
	l.t.Helper()
	l.stop()
	if r, err := l.st.Check(context.Background()); err != nil || len(r.Problems) > 0 {
		l.t.Errorf("check: %q, %v", r.Problems, err)
	}
	if err := l.st.Close(); err != nil {
		l.t.Error(err)
	}
}

func (l *life) scope(group, kind string, versions ...string) (string, error) {
	mapping, err := l.RESTMapping(schema.GroupKind{Group: group, Kind: kind}, versions...)
	if err != nil {
		return "", err
	}
	return mapping.Resource.String() + " " + string(mapping.Scope.Name()), nil
}

func (l *life) has(group, kind, want string, versions ...string) {
	l.t.Helper()
	if got, err := l.scope(group, kind, versions...); err != nil || got != want {
		l.t.Errorf("%s.%s is %q, want %q; %v", kind, group, got, want, err)
	}
}

const (
	podsAre        = "/v1, Resource=pods namespace"
	nodesAre       = "/v1, Resource=nodes root"
	deploymentsAre = "apps/v1, Resource=deployments namespace"
)

func storePath(t *testing.T) string { return filepath.Join(t.TempDir(), "larder.db") }

func bubble(t *testing.T, fn func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, fn)
}
