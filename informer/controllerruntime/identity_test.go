package controllerruntime

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer"
)

var (
	pods        = corev1.SchemeGroupVersion.WithResource("pods")
	nodes       = corev1.SchemeGroupVersion.WithResource("nodes")
	deployments = appsv1.SchemeGroupVersion.WithResource("deployments")
	widgetKind  = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}
	widgets     = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}
)

// staticMapper returns a RESTMapper that knows the kinds of these tests without a server.
func staticMapper() meta.RESTMapper {
	m := meta.NewDefaultRESTMapper([]schema.GroupVersion{corev1.SchemeGroupVersion, appsv1.SchemeGroupVersion,
		widgetKind.GroupVersion()})
	m.Add(corev1.SchemeGroupVersion.WithKind("Pod"), meta.RESTScopeNamespace)
	m.Add(corev1.SchemeGroupVersion.WithKind("Node"), meta.RESTScopeRoot)
	m.Add(corev1.SchemeGroupVersion.WithKind("Namespace"), meta.RESTScopeRoot)
	m.Add(appsv1.SchemeGroupVersion.WithKind("Deployment"), meta.RESTScopeNamespace)
	m.Add(widgetKind, meta.RESTScopeNamespace)
	return m
}

func unstructuredOf(gvk schema.GroupVersionKind) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(gvk)
	return u
}

func metadataOf(gvk schema.GroupVersionKind) *metav1.PartialObjectMetadata {
	m := &metav1.PartialObjectMetadata{}
	m.SetGroupVersionKind(gvk)
	return m
}

type exhausted struct{}

func (exhausted) TryAccept() bool            { return false }
func (exhausted) Accept()                    { panic("exhausted") }
func (exhausted) Stop()                      {}
func (exhausted) QPS() float32               { return 0 }
func (exhausted) Wait(context.Context) error { return errors.New("exhausted") }

// derived makes a cache with opts and its informers for objs, and returns the sorted identities of their collections. A
// request that is sent fails the test.
func derived(t *testing.T, config *rest.Config, opts cache.Options, objs ...client.Object) []entry.Identity {
	t.Helper()
	if opts.Mapper == nil {
		opts.Mapper = staticMapper()
	}
	if opts.HTTPClient == nil {
		opts.HTTPClient = &http.Client{Timeout: time.Minute,
			Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
				t.Errorf("%s %s was sent", r.Method, r.URL)
				return nil, errors.New("not here")
			})}
	}
	config, opts, a, err := adapt(config, opts, informer.Options{InMemory: true})
	must(t, err)
	var ids []entry.Identity
	opts.NewInformer = func(lw toolscache.ListerWatcher, obj runtime.Object, _ time.Duration,
		indexers toolscache.Indexers) toolscache.SharedIndexInformer {
		id, _, err := identify(lw, obj, a.base)
		if err != nil {
			t.Errorf("%T: %v", obj, err)
		}
		ids = append(ids, id)
		return toolscache.NewSharedIndexInformer(lw, obj, 0, indexers)
	}
	c, err := cache.New(config, opts)
	must(t, err)
	for _, obj := range objs {
		// IndexField makes the informer, and does not wait until the informer has synced.
		must(t, c.IndexField(t.Context(), obj, "x", func(client.Object) []string { return nil }))
	}
	slices.SortFunc(ids, func(a, b entry.Identity) int { return strings.Compare(a.String(), b.String()) })
	return ids
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func identity(gvr schema.GroupVersionResource, change ...func(*entry.Identity)) entry.Identity {
	id := entry.Identity{GroupVersionResource: gvr, Representation: entry.Typed}
	for _, c := range change {
		c(&id)
	}
	return id
}

func as(r entry.Representation) func(*entry.Identity) {
	return func(id *entry.Identity) { id.Representation = r }
}

func in(namespace string) func(*entry.Identity) {
	return func(id *entry.Identity) { id.Namespace = namespace }
}

func labelled(s string) func(*entry.Identity) {
	return func(id *entry.Identity) { id.LabelSelector = s }
}

func fielded(s string) func(*entry.Identity) {
	return func(id *entry.Identity) { id.FieldSelector = s }
}

func TestIdentity(t *testing.T) {
	pod, node, deployment := &corev1.Pod{}, &corev1.Node{}, &appsv1.Deployment{}
	web := labels.SelectorFromSet(labels.Set{"app": "web"})
	podKind := corev1.SchemeGroupVersion.WithKind("Pod")
	for name, c := range map[string]struct {
		config rest.Config
		opts   cache.Options
		objs   []client.Object
		want   []entry.Identity
	}{
		"core, group, cluster-scoped": {
			objs: []client.Object{pod, deployment, node},
			want: []entry.Identity{identity(deployments), identity(nodes), identity(pods)},
		},
		"the namespaces themselves": {
			objs: []client.Object{&corev1.Namespace{}},
			want: []entry.Identity{identity(corev1.SchemeGroupVersion.WithResource("namespaces"))},
		},
		"three representations": {
			objs: []client.Object{pod, unstructuredOf(podKind), metadataOf(podKind)},
			want: []entry.Identity{identity(pods), identity(pods, as(entry.Metadata)), identity(pods, as(entry.Unstructured))},
		},
		"custom resource": {
			objs: []client.Object{unstructuredOf(widgetKind), metadataOf(widgetKind)},
			want: []entry.Identity{identity(widgets, as(entry.Metadata)), identity(widgets, as(entry.Unstructured))},
		},
		"namespaces": {
			opts: cache.Options{DefaultNamespaces: map[string]cache.Config{"a": {}, "b": {LabelSelector: web}}},
			objs: []client.Object{pod, node, metadataOf(podKind), unstructuredOf(podKind)},
			want: []entry.Identity{
				identity(nodes), identity(pods, in("a")), identity(pods, in("a"), as(entry.Metadata)),
				identity(pods, in("a"), as(entry.Unstructured)),
				identity(pods, in("b"), labelled("app=web")), identity(pods, in("b"), labelled("app=web"), as(entry.Metadata)),
				identity(pods, in("b"), labelled("app=web"), as(entry.Unstructured)),
			},
		},
		"the other namespaces": {
			opts: cache.Options{DefaultNamespaces: map[string]cache.Config{"a": {}, cache.AllNamespaces: {}}},
			objs: []client.Object{pod},
			want: []entry.Identity{identity(pods, in("a")), identity(pods, fielded("metadata.namespace!=a"))},
		},
		"all namespaces by an empty key": {
			opts: cache.Options{DefaultNamespaces: map[string]cache.Config{cache.AllNamespaces: {}}},
			objs: []client.Object{pod},
			want: []entry.Identity{identity(pods)},
		},
		"a field selector that names a namespace": {
			opts: cache.Options{ByObject: map[client.Object]cache.ByObject{
				pod: {Field: fields.OneTermEqualSelector("metadata.namespace", "a")},
			}},
			objs: []client.Object{pod},
			want: []entry.Identity{identity(pods, in("a"), fielded("metadata.namespace=a"))},
		},
		"one object": {
			opts: cache.Options{ByObject: map[client.Object]cache.ByObject{
				node: {Field: fields.OneTermEqualSelector("metadata.name", "n 1&b=c,d")},
			}},
			objs: []client.Object{node, pod},
			want: []entry.Identity{identity(nodes, fielded(fields.OneTermEqualSelector("metadata.name", "n 1&b=c,d").String())),
				identity(pods)},
		},
		"default selectors": {
			opts: cache.Options{
				DefaultLabelSelector: labels.NewSelector().Add(requirement("tier"), requirement("app")),
				DefaultFieldSelector: fields.OneTermNotEqualSelector("metadata.name", "x"),
			},
			objs: []client.Object{pod},
			want: []entry.Identity{identity(pods, labelled("app,tier"), fielded("metadata.name!=x"))},
		},
		"selectors by object and namespace": {
			opts: cache.Options{
				DefaultLabelSelector: web,
				ByObject: map[client.Object]cache.ByObject{
					pod:        {Namespaces: map[string]cache.Config{"a": {LabelSelector: labels.Everything()}, "b": {}}},
					deployment: {Label: labels.Set{"x": "y"}.AsSelector()},
				},
			},
			objs: []client.Object{pod, deployment, node},
			want: []entry.Identity{
				identity(deployments, labelled("x=y")), identity(nodes, labelled("app=web")),
				identity(pods, in("a")), identity(pods, in("b"), labelled("app=web")),
			},
		},
		"below a path, as behind Rancher": {
			config: rest.Config{Host: "https://rancher.invalid/k8s/clusters/c-1"},
			opts:   cache.Options{DefaultNamespaces: map[string]cache.Config{"a": {}}},
			objs:   []client.Object{pod, deployment, node, unstructuredOf(podKind), metadataOf(podKind)},
			want: []entry.Identity{
				identity(deployments, in("a")), identity(nodes),
				identity(pods, in("a")), identity(pods, in("a"), as(entry.Metadata)),
				identity(pods, in("a"), as(entry.Unstructured)),
			},
		},
		"below a path that looks like an API": {
			config: rest.Config{Host: "https://proxy.invalid/api/v1//namespaces/x/"},
			objs:   []client.Object{pod, unstructuredOf(podKind), metadataOf(podKind), deployment},
			want: []entry.Identity{
				identity(deployments), identity(pods), identity(pods, as(entry.Metadata)), identity(pods, as(entry.Unstructured)),
			},
		},
		"time-out, exhausted rate limiter": {
			config: rest.Config{Timeout: time.Minute, RateLimiter: exhausted{}},
			objs:   []client.Object{pod, unstructuredOf(podKind), metadataOf(podKind)},
			want:   []entry.Identity{identity(pods), identity(pods, as(entry.Metadata)), identity(pods, as(entry.Unstructured))},
		},
		"JSON only": {
			config: rest.Config{ContentConfig: rest.ContentConfig{ContentType: runtime.ContentTypeJSON,
				AcceptContentTypes: runtime.ContentTypeJSON}},
			objs: []client.Object{pod, metadataOf(podKind)},
			want: []entry.Identity{identity(pods), identity(pods, as(entry.Metadata))},
		},
		"no watch bookmarks": {
			opts: cache.Options{DefaultEnableWatchBookmarks: new(bool)},
			objs: []client.Object{pod},
			want: []entry.Identity{identity(pods)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if c.config.Host == "" {
				c.config.Host = "http://127.0.0.1:1"
			}
			if diff := cmp.Diff(c.want, derived(t, &c.config, c.opts, c.objs...)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func requirement(key string) labels.Requirement {
	r, err := labels.NewRequirement(key, "exists", nil)
	if err != nil {
		panic(err)
	}
	return *r
}

// TestNoIdentity checks that the error names the reason for which no identity can be derived, and that no request is
// sent.
func TestNoIdentity(t *testing.T) {
	config := &rest.Config{Host: "http://127.0.0.1:1/prefix"}
	httpClient, err := clientFor(config,
		&http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			return nil, errors.New("a request was sent")
		})})
	must(t, err)
	get := func(ctx context.Context, path string, header ...string) error {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1:1/prefix"+path, nil)
		must(t, err)
		for _, h := range header {
			r.Header.Add("Accept", h)
		}
		return do(httpClient, r)
	}
	path := func(path string, header ...string) func(context.Context) error {
		return func(ctx context.Context) error { return get(ctx, path, header...) }
	}
	const pods = "/api/v1/pods"
	for name, c := range map[string]struct {
		list func(context.Context) error
		obj  runtime.Object
		want string
	}{
		"sends nothing, fails": {list: func(context.Context) error { return errors.New("asleep") },
			want: "sent no request through the cache's HTTP client: asleep"},
		"sends nothing, succeeds": {list: func(context.Context) error { return nil },
			want: "sent no request through the cache's HTTP client, but has an answer"},
		"loses the context": {list: func(context.Context) error { return get(context.Background(), pods) },
			want: "a request was sent"},
		"sends two": {list: func(ctx context.Context) error {
			return errors.Join(get(ctx, pods),
				get(ctx, "/api/v1/nodes"))
		}, want: "sent 2 requests"},
		"has another source": {list: func(ctx context.Context) error { _ = get(ctx, pods); return nil },
			want: "has another source"},
		"another error": {list: func(ctx context.Context) error { _ = get(ctx, pods); return errors.New("no") },
			want: "hides the reason: no"},
		"posts": {list: func(ctx context.Context) error {
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://127.0.0.1:1/prefix/api/v1/pods",
				strings.NewReader("x"))
			must(t, err)
			return do(httpClient, r)
		}, want: "a list is a GET"},
		"elsewhere": {list: func(ctx context.Context) error {
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1:1/api/v1/pods", nil)
			must(t, err)
			return do(httpClient, r)
		}, want: "not below the API server's, /prefix/"},
		"one object":         {list: path("/api/v1/namespaces/a/pods/b"), want: "not that of a list"},
		"one namespace":      {list: path("/api/v1/namespaces/a"), want: "not that of a list"},
		"a path of no API":   {list: path("/version"), want: "names no resource"},
		"a group":            {list: path("/apis/apps/v1"), want: "names no resource"},
		"an empty segment":   {list: path("/api/v1/namespaces//pods"), want: "empty segment"},
		"a foreign option":   {list: path(pods + "?at=yesterday"), want: "the parameter at may change"},
		"a page":             {list: path(pods + "?continue=x"), want: "the parameter continue may change"},
		"a watch":            {list: path(pods + "?watch=true"), want: "the parameter watch may change"},
		"two selectors":      {list: path(pods + "?labelSelector=a&labelSelector=b"), want: "labelSelector is there 2 times"},
		"an invalid one":     {list: path(pods + "?labelSelector=a%3D%3D%3D"), want: "label selector"},
		"a table":            {list: path(pods, "application/json;as=Table;g=meta.k8s.io;v=v1"), want: "asks for a Table"},
		"an unreadable form": {list: path(pods, "a/b/c"), want: "cannot be read"},
		"metadata for pods": {list: path(pods, "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"),
			want: "asks for metadata, where the informer's objects are typed"},
		"pods for metadata": {list: path(pods, "application/json"), obj: &metav1.PartialObjectMetadata{},
			want: "asks for whole objects"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.obj == nil {
				c.obj = &corev1.Pod{}
			}
			lw := &toolscache.ListWatch{ListWithContextFunc: func(ctx context.Context, _ metav1.ListOptions) (runtime.Object,
				error) {
				return &corev1.PodList{}, c.list(ctx)
			}}
			id, _, err := identify(lw, c.obj, "/prefix")
			if !errors.Is(err, ErrIdentity) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("identity %q, error %v", id, err)
			}
			t.Log(err)
		})
	}
	t.Run("takes no context", func(t *testing.T) {
		for _, lw := range []toolscache.ListerWatcher{&toolscache.ListWatch{}, contextless{}} {
			if _, _, err := identify(lw, &corev1.Pod{}, ""); !errors.Is(err, ErrIdentity) {
				t.Error(err)
			}
		}
	})
}

// contextless is a ListerWatcher whose methods take no context. No test calls these methods.
type contextless struct{ toolscache.ListerWatcher }

func do(c *http.Client, r *http.Request) error {
	response, err := c.Do(r)
	if err == nil {
		err = response.Body.Close()
	}
	return err
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
