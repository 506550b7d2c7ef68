package discovery_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/restmapper"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/discovery"
	"github.com/larder-dev/larder/internal/facts"
)

var reads = []string{"get", "list", "watch"}

func resource(gvr, kind string, namespaced bool, shortNames ...string) discovery.Resource {
	parts := strings.Split(gvr, "/")
	return discovery.Resource{
		GroupVersionResource: schema.GroupVersionResource{Group: parts[0], Version: parts[1], Resource: parts[2]},
		ResourceInfo: entry.ResourceInfo{Kind: kind, Singular: strings.ToLower(kind), Namespaced: namespaced,
			ShortNames: shortNames},
		Verbs: reads,
	}
}

// mirrored returns resources for a Handler, unsorted: pods of two namespaces, groups that the server does not sort by
// name, and versions with and without the preferred version of their group.
func mirrored() []discovery.Resource {
	pods := resource("/v1/pods", "Pod", true, "po")
	pods.Categories = []string{"all"}
	review := resource("authorization.k8s.io/v1/selfsubjectaccessreviews", "SelfSubjectAccessReview", false)
	review.Verbs = []string{"create"}
	return []discovery.Resource{
		resource("example.org/v1beta1/widgets", "Widget", true, "wd"),
		resource("example.org/v1/widgets", "Widget", true, "wd"),
		resource("batch/v1/jobs", "Job", true), pods, review, pods, resource("/v1/nodes", "Node", false, "no"),
		resource("apps/v1/deployments", "Deployment", true, "deploy"),
		resource("autoscaling/v1/horizontalpodautoscalers", "HorizontalPodAutoscaler", true, "hpa"),
		resource("a.new.group/v1/things", "Thing", true),
		resource("example.org/v2alpha1/widgets", "Widget", true, "wd"),
	}
}

// upstream returns the discovery of an API server that lists the group apps before autoscaling and batch.
func upstream() *facts.Discovery {
	group := func(name string, versions ...string) *restmapper.APIGroupResources {
		g := &restmapper.APIGroupResources{Group: metav1.APIGroup{Name: name},
			VersionedResources: map[string][]metav1.APIResource{}}
		for _, v := range versions {
			g.Group.Versions = append(g.Group.Versions, metav1.GroupVersionForDiscovery{
				GroupVersion: schema.GroupVersion{Group: name, Version: v}.String(), Version: v})
		}
		g.Group.PreferredVersion = g.Group.Versions[0]
		return g
	}
	d := &facts.Discovery{Version: 2, Groups: []*restmapper.APIGroupResources{
		group("", "v1"), group("apps", "v1"), group("authorization.k8s.io", "v1"), group("autoscaling", "v2", "v1"),
		group("batch", "v1"), group("example.org", "v1beta1", "v1"),
	}}
	d.Groups[1].VersionedResources["v1"] = []metav1.APIResource{
		{Name: "replicasets", SingularName: "replicaset", Kind: "ReplicaSet", Namespaced: true}}
	return d
}

func serve(t *testing.T, h http.Handler) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

func ask(t *testing.T, h http.Handler, target string, header ...string) *http.Response {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, target, nil)
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

func schemas() (map[schema.GroupVersion]string, func(context.Context, schema.GroupVersion) ([]byte, string, error)) {
	hashes := map[schema.GroupVersion]string{{Version: "v1"}: "HASH1", {Group: "apps", Version: "v1"}: "HASH2",
		{Group: "policy", Version: "v1"}: "HASH3"}
	return hashes, func(_ context.Context, gv schema.GroupVersion) ([]byte, string, error) {
		return []byte(`{"openapi":"3.0.0","of":"` + gv.String() + `"}`), hashes[gv], nil
	}
}
