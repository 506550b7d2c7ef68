package discovery_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	clientdiscovery "k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/disk"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/openapi3"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"github.com/larder-dev/larder/internal/discovery"
	"github.com/larder-dev/larder/internal/facts"
)

type counted struct {
	http.Handler
	mu     sync.Mutex
	counts map[string]int
}

func (c *counted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	c.counts[r.URL.Path]++
	c.mu.Unlock()
	c.Handler.ServeHTTP(w, r)
}

func newServed(t *testing.T) (*rest.Config, *counted) {
	t.Helper()
	hashes, read := schemas()
	c := &counted{counts: map[string]int{}, Handler: discovery.New(mirrored(), discovery.Options{
		Server:  facts.Server{Discovery: upstream(), Schemas: hashes, Version: &version.Info{GitVersion: "v1.36.3"}},
		OpenAPI: read,
	})}
	return &rest.Config{Host: serve(t, c), QPS: -1}, c
}

// TestClient checks that client-go's discovery client gets the same results from the aggregated discovery documents and
// from the legacy ones.
func TestClient(t *testing.T) {
	config, c := newServed(t)
	aggregated, err := clientdiscovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	old, err := clientdiscovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	old.UseLegacyDiscovery = true
	groups, lists, err := aggregated.ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	if c.counts["/api"] != 1 || c.counts["/apis"] != 1 || len(c.counts) != 2 {
		t.Errorf("the aggregated documents: %v", c.counts)
	}
	oldGroups, oldLists, err := old.ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range append(oldLists, lists...) {
		for i := range list.APIResources {
			// Aggregated documents need not have group and version, so these fields are not compared.
			list.APIResources[i].Group, list.APIResources[i].Version = "", ""
		}
		list.Kind, list.APIVersion = "", ""
	}
	for _, g := range oldGroups {
		g.Kind, g.APIVersion = "", ""
	}
	if d := cmp.Diff(oldGroups, groups); d != "" {
		t.Errorf("groups (- old, + aggregated):\n%s", d)
	}
	byName := func(a, b *metav1.APIResourceList) int { return strings.Compare(a.GroupVersion, b.GroupVersion) }
	slices.SortFunc(oldLists, byName)
	slices.SortFunc(lists, byName)
	if d := cmp.Diff(oldLists, lists); d != "" {
		t.Errorf("resources (- old, + aggregated):\n%s", d)
	}
	if len(lists) != 9 {
		t.Errorf("%d group-versions", len(lists))
	}
	if v, err := aggregated.ServerVersion(); err != nil || v.GitVersion != "v1.36.3" {
		t.Errorf("%v, %v", v, err)
	}
	preferred, err := aggregated.ServerPreferredResources()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, list := range preferred {
		if len(list.APIResources) > 0 {
			names = append(names, list.GroupVersion)
		}
	}
	slices.Sort(names)
	if got := strings.Join(names, " "); got != "a.new.group/v1 apps/v1 authorization.k8s.io/v1 autoscaling/v1 batch/v1 "+
		"example.org/v1beta1 v1" {
		t.Error(got)
	}
}

// TestMapper checks that kubectl's RESTMapper maps names and kinds with the discovery of a Handler.
func TestMapper(t *testing.T) {
	config, _ := newServed(t)
	client, err := clientdiscovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	all, err := restmapper.GetAPIGroupResources(client)
	if err != nil {
		t.Fatal(err)
	}
	m := restmapper.NewShortcutExpander(restmapper.NewDiscoveryRESTMapper(all), client, nil)
	for name, want := range map[string]string{
		"po": "/v1, Resource=pods", "deploy": "apps/v1, Resource=deployments", "node": "/v1, Resource=nodes",
		"wd": "example.org/v1beta1, Resource=widgets", "hpa": "autoscaling/v1, Resource=horizontalpodautoscalers",
	} {
		got, err := m.ResourceFor(schema.GroupVersionResource{Resource: name})
		if err != nil || got.String() != want {
			t.Errorf("%s: %v, %v, want %s", name, got, err, want)
		}
	}
	if _, err := m.KindFor(schema.GroupVersionResource{Resource: "secrets"}); err == nil {
		t.Error("a resource that is not mirrored is there")
	}
	mapping, err := m.RESTMapping(schema.GroupKind{Group: "example.org", Kind: "Widget"}, "v1")
	if err != nil || mapping.Scope.Name() != "namespace" {
		t.Errorf("%+v, %v", mapping, err)
	}
}

// TestDiskCache checks that kubectl's disk cache can store the discovery documents, and requests none until it is
// invalidated.
func TestDiskCache(t *testing.T) {
	config, c := newServed(t)
	cached, err := disk.NewCachedDiscoveryClientForConfig(config, t.TempDir(), t.TempDir(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	groups, lists, err := cached.ServerGroupsAndResources()
	if err != nil || len(groups) != 7 || len(lists) != 9 {
		t.Errorf("%d groups, %d lists, %v", len(groups), len(lists), err)
	}
	asked := c.counts["/apis"]
	if _, _, err := cached.ServerGroupsAndResources(); err != nil || c.counts["/apis"] != asked {
		t.Errorf("%d requests, and %d before, %v", c.counts["/apis"], asked, err)
	}
	cached.Invalidate()
	if _, _, err := cached.ServerGroupsAndResources(); err != nil || c.counts["/apis"] != asked+1 {
		t.Errorf("%d requests, and %d before, %v", c.counts["/apis"], asked, err)
	}
}

func TestOpenAPIClient(t *testing.T) {
	config, _ := newServed(t)
	client, err := clientdiscovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	paths, err := client.OpenAPIV3().Paths()
	if err != nil || len(paths) != 2 || paths["apis/apps/v1"] == nil {
		t.Fatalf("%v, %v", paths, err)
	}
	document, err := paths["apis/apps/v1"].Schema(runtime.ContentTypeJSON)
	if err != nil || !json.Valid(document) || !strings.Contains(string(document), "apps/v1") {
		t.Errorf("%s, %v", document, err)
	}
	gvs, err := openapi3.NewRoot(client.OpenAPIV3()).GroupVersions()
	if err != nil || len(gvs) != 2 {
		t.Errorf("%v, %v", gvs, err)
	}
}

func TestProtobuf(t *testing.T) {
	_, c := newServed(t)
	decode := func(path, accept string, into runtime.Object) {
		t.Helper()
		r := ask(t, c, path, "Accept", accept)
		if got := r.Header.Get("Content-Type"); got != accept {
			t.Errorf("%s: %s", path, got)
		}
		if err := runtime.DecodeInto(scheme.Codecs.UniversalDeserializer(), []byte(body(t, r)), into); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	var groups metav1.APIGroupList
	decode("/apis", runtime.ContentTypeProtobuf, &groups)
	var resources metav1.APIResourceList
	decode("/apis/apps/v1", runtime.ContentTypeProtobuf, &resources)
	if len(groups.Groups) != 6 || len(resources.APIResources) != 1 || resources.APIResources[0].Kind != "Deployment" {
		t.Errorf("%+v, %+v", groups, resources)
	}
	r := ask(t, c, "/apis", "Accept", strings.Replace(asAggregated, "json", "vnd.kubernetes.protobuf", 1))
	var unknown runtime.Unknown
	data := []byte(body(t, r))
	if err := unknown.Unmarshal(data[4:]); err != nil {
		t.Fatal(err)
	}
	var list apidiscoveryv2.APIGroupDiscoveryList
	if err := list.Unmarshal(unknown.Raw); err != nil || len(list.Items) != 6 ||
		unknown.APIVersion != "apidiscovery.k8s.io/v2" || unknown.Kind != "APIGroupDiscoveryList" {
		t.Errorf("%+v, %v", unknown.TypeMeta, err)
	}
}

// TestSubresources checks that subresources are listed with the groups and versions of their kinds. kubectl needs them
// to find out whether it can evict and scale.
func TestSubresources(t *testing.T) {
	known := upstream()
	known.Groups[0].VersionedResources["v1"] = []metav1.APIResource{
		{Name: "pods", Kind: "Pod", Namespaced: true, Verbs: []string{"create", "get"}},
		{Name: "pods/eviction", Kind: "Eviction", Group: "policy", Version: "v1", Namespaced: true,
			Verbs: []string{"create"}},
		{Name: "pods/log", Kind: "Pod", Namespaced: true, Verbs: []string{"get"}},
		{Name: "services/proxy", Kind: "ServiceProxyOptions", Namespaced: true, Verbs: []string{"get"}},
	}
	h := discovery.New(append(mirrored(), discovery.Of(known)...),
		discovery.Options{Server: facts.Server{Discovery: known}})
	for _, legacy := range []bool{false, true} {
		client, err := clientdiscovery.NewDiscoveryClientForConfig(&rest.Config{Host: serve(t, h), QPS: -1})
		if err != nil {
			t.Fatal(err)
		}
		client.UseLegacyDiscovery = legacy
		_, lists, err := client.ServerGroupsAndResources()
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for _, list := range lists {
			for _, r := range list.APIResources {
				if strings.Contains(r.Name, "/") {
					got[list.GroupVersion+" "+r.Name] = strings.Join([]string{r.Group, r.Version, r.Kind}, "/") + " " +
						strings.Join(r.Verbs, ",")
				}
			}
		}
		want := map[string]string{"v1 pods/eviction": "policy/v1/Eviction create", "v1 pods/log": "//Pod get"}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("legacy %v (- want, + got):\n%s", legacy, d)
		}
	}
}
