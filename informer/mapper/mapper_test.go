package mapper

import (
	"errors"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/larder-dev/larder/internal/limiter"
	"github.com/larder-dev/larder/store"
)

var errDown = errors.New("connection refused")

// TestOffline checks that the mapper answers from the discovery document that an earlier process stored, without a
// request. For an unknown kind it returns ErrUnreachable, not a no-match error.
func TestOffline(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a, path := newAPI(), storePath(t)
		l := begin(t, a, path, true)
		l.has("", "Pod", podsAre)
		synctest.Wait()
		said := time.Now()
		if s := l.Status(); !s.Stored || !s.AsOf.Equal(said) || s.Err != nil {
			t.Errorf("%+v", s)
		}
		l.end()

		a.change(func(a *api) { a.err, a.requests = errDown, 0 })
		time.Sleep(time.Hour)
		l = begin(t, a, path, false)
		l.has("", "Pod", podsAre)
		l.has("", "Node", nodesAre)
		l.has("apps", "Deployment", deploymentsAre)
		l.has("apps", "Deployment", "apps/v1beta1, Resource=deployments namespace", "v1beta1")
		if s := l.Status(); !s.Stored || !s.AsOf.Equal(said) || s.Err != nil {
			t.Errorf("%+v", s)
		}
		if n := a.asked(); n != 0 {
			t.Errorf("%d requests for what is known", n)
		}
		for range 3 {
			_, err := l.scope("example.org", "Widget")
			if !errors.Is(err, ErrUnreachable) || !errors.Is(err, errDown) || meta.IsNoMatchError(err) ||
				!strings.Contains(err.Error(), said.UTC().Format(time.RFC3339)) {
				t.Errorf("a kind that nobody knows: %v", err)
			}
		}
		if n := a.asked(); n != 1 {
			t.Errorf("%d requests in one moment", n)
		}
		if s := l.Status(); !errors.Is(s.Err, errDown) {
			t.Errorf("%+v", s)
		}
		l.has("", "Pod", podsAre)

		a.change(func(a *api) { a.err = nil })
		time.Sleep(limiter.BackoffBase + 1)
		if _, err := l.scope("example.org", "Widget"); !meta.IsNoMatchError(err) {
			t.Errorf("the server says that there is none: %v", err)
		}
		a.set("example.org", "v1", "Widget", "widgets", apidiscoveryv2.ScopeNamespace)
		l.has("example.org", "Widget", "example.org/v1, Resource=widgets namespace")
		if s := l.Status(); s.Err != nil || s.Stored {
			t.Errorf("%+v", s)
		}
		l.end()
	})
}

func TestNoDiscovery(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a := newAPI()
		a.change(func(a *api) { a.err = errDown })
		m, err := New(&rest.Config{Host: "http://server", QPS: -1}, &http.Client{Transport: a}, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, err = m.KindFor(schema.GroupVersionResource{Resource: "pods"})
		if !errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), "nothing is known") {
			t.Error(err)
		}
		if s := m.Status(); !s.AsOf.IsZero() || s.Stored || !errors.Is(s.Err, errDown) {
			t.Errorf("%+v", s)
		}
		a.change(func(a *api) { a.err, a.junk = nil, "{}" })
		time.Sleep(limiter.BackoffBase + 1)
		if _, err := m.KindFor(schema.GroupVersionResource{Resource: "pods"}); !errors.Is(err, ErrUnreachable) ||
			!strings.Contains(err.Error(), "has no resources") {
			t.Errorf("an answer that says nothing: %v", err)
		}
		a.change(func(a *api) { a.junk = "" })
		time.Sleep(2*limiter.BackoffBase + 1)
		if gvk, err := m.KindFor(schema.GroupVersionResource{Resource: "pods"}); err != nil || gvk.Kind != "Pod" {
			t.Errorf("%v, %v", gvk, err)
		}
	})
}

// TestQueries checks each method with known resources, with resources that only a new request finds, and with resources
// that do not exist.
func TestQueries(t *testing.T) {
	bubble(t, func(t *testing.T) {
		deployments := schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
		old := schema.GroupVersionResource{Group: "apps", Version: "v1beta1", Resource: "deployments"}
		kind := deployments.GroupVersion().WithKind("Deployment")
		none := schema.GroupVersionResource{Group: "apps", Resource: "things"}
		for name, q := range map[string]struct {
			ask  func(m *Mapper) (any, error)
			want any
			none func(m *Mapper) (any, error)
		}{
			"KindFor": {func(m *Mapper) (any, error) { return m.KindFor(schema.GroupVersionResource{Resource: "deployment"}) },
				kind,
				func(m *Mapper) (any, error) { return m.KindFor(none) }},
			"KindsFor": {func(m *Mapper) (any, error) { return m.KindsFor(deployments) }, []schema.GroupVersionKind{kind},
				func(m *Mapper) (any, error) { return m.KindsFor(none) }},
			"ResourceFor": {func(m *Mapper) (any, error) {
				return m.ResourceFor(schema.GroupVersionResource{Group: "apps", Resource: "deployment"})
			}, deployments,
				func(m *Mapper) (any, error) { return m.ResourceFor(none) }},
			"ResourcesFor": {func(m *Mapper) (any, error) {
				return m.ResourcesFor(schema.GroupVersionResource{Resource: "deployments"})
			},
				[]schema.GroupVersionResource{deployments, old},
				func(m *Mapper) (any, error) { return m.ResourcesFor(none) }},
			"RESTMapping": {func(m *Mapper) (any, error) { return m.RESTMapping(kind.GroupKind()) },
				&meta.RESTMapping{Resource: deployments, GroupVersionKind: kind, Scope: meta.RESTScopeNamespace},
				func(m *Mapper) (any, error) { return m.RESTMapping(kind.GroupKind(), "v7") }},
			"RESTMappings": {func(m *Mapper) (any, error) { return m.RESTMappings(kind.GroupKind(), "v1") },
				[]*meta.RESTMapping{{Resource: deployments, GroupVersionKind: kind, Scope: meta.RESTScopeNamespace}},
				func(m *Mapper) (any, error) { return m.RESTMappings(schema.GroupKind{Group: "apps", Kind: "Thing"}) }},
			"ResourceSingularizer": {func(m *Mapper) (any, error) { return m.ResourceSingularizer("deployments") }, "deployment",
				func(m *Mapper) (any, error) { return m.ResourceSingularizer("things") }},
		} {
			a := newAPI()
			m, err := New(&rest.Config{Host: "http://server", QPS: -1}, &http.Client{Transport: a}, nil)
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if got, err := q.ask(m); err != nil || !reflect.DeepEqual(got, q.want) {
					t.Errorf("%s: %v, %v, want %v", name, got, err, q.want)
				}
			}
			if n := a.asked(); n != 2 {
				t.Errorf("%s: %d requests, want those of one discovery", name, n)
			}
			got, err := q.none(m)
			if !meta.IsNoMatchError(err) {
				t.Errorf("%s of what there is not: %v", name, err)
			}
			if name == "ResourceSingularizer" && got != "things" {
				t.Errorf("%s of what there is not: %q, want the word itself", name, got)
			}
		}
	})
}

// TestHangingServer checks that concurrent queries for unknown kinds wait together for missWait, that queries for known
// kinds do not wait, and that the next query for an unknown kind fails at once.
func TestHangingServer(t *testing.T) {
	for _, running := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			a, path := newAPI(), storePath(t)
			l := begin(t, a, path, true)
			synctest.Wait()
			l.end()
			a.change(func(a *api) { a.hangs, a.requests = true, 0 })
			l = begin(t, a, path, running)
			synctest.Wait()
			start := time.Now()
			var callers sync.WaitGroup
			for range 3 {
				callers.Go(func() {
					if _, err := l.scope("example.org", "Widget"); !errors.Is(err, ErrUnreachable) || meta.IsNoMatchError(err) {
						t.Error(err)
					}
				})
			}
			synctest.Wait()
			l.has("", "Pod", podsAre)
			if n := a.asked(); n != 1 {
				t.Errorf("%d requests", n)
			}
			callers.Wait()
			if d := time.Since(start); d != missWait {
				t.Errorf("they waited %v", d)
			}
			start = time.Now()
			if _, err := l.scope("example.org", "Widget"); !errors.Is(err, ErrUnreachable) {
				t.Error(err)
			}
			if d := time.Since(start); d != 0 {
				t.Errorf("the next one waited %v", d)
			}
			l.end()
		})
	}
}

// TestMissNeedsNewRequest checks that a query for an unknown kind does not use the answer to an earlier request, which
// may be older than the kind.
func TestMissNeedsNewRequest(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a := newAPI()
		slow := &slowly{a}
		m, err := New(&rest.Config{Host: "http://server", QPS: -1}, &http.Client{Transport: slow}, nil)
		if err != nil {
			t.Fatal(err)
		}
		var callers sync.WaitGroup
		callers.Go(func() {
			if _, err := m.KindFor(schema.GroupVersionResource{Resource: "pods"}); err != nil {
				t.Error(err)
			}
		})
		time.Sleep(1500 * time.Millisecond) // the server has made the second answer, and not sent it yet
		a.set("example.org", "v1", "Widget", "widgets", apidiscoveryv2.ScopeNamespace)
		callers.Go(func() {
			if _, err := m.KindFor(schema.GroupVersionResource{Group: "example.org", Resource: "widgets"}); err != nil {
				t.Error(err)
			}
		})
		callers.Wait()
	})
}

type slowly struct{ *api }

func (s *slowly) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := s.api.RoundTrip(r)
	time.Sleep(time.Second)
	return answer, err
}

// TestFailedGroupVersion checks that the mapper keeps the known resources of an aggregated API that is down, and
// returns ErrUnreachable for an unknown kind in its group.
func TestFailedGroupVersion(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a, path := newAPI(), storePath(t)
		a.set("metrics.k8s.io", "v1beta1", "PodMetrics", "podmetrics", apidiscoveryv2.ScopeNamespace)
		a.set("old.example.org", "v1", "Thing", "things", apidiscoveryv2.ScopeNamespace)
		l := begin(t, a, path, true)
		synctest.Wait()
		l.end()

		const metricsAre = "metrics.k8s.io/v1beta1, Resource=podmetrics namespace"
		a.fresh("metrics.k8s.io", "v1beta1", false)
		a.fresh("apps", "v1", false)
		a.change(func(a *api) { a.groups = a.groups[:len(a.groups)-1] })
		for range 2 {
			l = begin(t, a, path, true)
			synctest.Wait()
			l.has("metrics.k8s.io", "PodMetrics", metricsAre)
			l.has("apps", "Deployment", deploymentsAre)
			if _, err := l.scope("old.example.org", "Thing"); !meta.IsNoMatchError(err) {
				t.Errorf("a group that is gone: %v", err)
			}
			if _, err := l.scope("metrics.k8s.io", "NodeMetrics"); !errors.Is(err, ErrUnreachable) || meta.IsNoMatchError(err) {
				t.Errorf("a kind of the API that is down: %v", err)
			}
			l.end()
		}
		a.fresh("metrics.k8s.io", "v1beta1", true)
		l = begin(t, a, path, true)
		synctest.Wait()
		l.has("metrics.k8s.io", "PodMetrics", metricsAre)
		if _, err := l.scope("metrics.k8s.io", "NodeMetrics"); !meta.IsNoMatchError(err) {
			t.Errorf("it is up again: %v", err)
		}
		l.end()
	})
}

func TestClosedStore(t *testing.T) {
	st, err := store.Open(storePath(t), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := New(&rest.Config{Host: "http://server"}, nil, st); !errors.Is(err, store.ErrClosed) {
		t.Error(err)
	}
}
