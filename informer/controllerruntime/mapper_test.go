package controllerruntime

import (
	"fmt"
	"reflect"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// TestAsApiutil checks that Larder's RESTMapper returns the same as controller-runtime's apiutil RESTMapper, first with
// a server and then without one.
func TestAsApiutil(t *testing.T) {
	srv := startServer(t)
	httpClient, err := rest.HTTPClientFor(srv.Config())
	must(t, err)
	t.Cleanup(httpClient.CloseIdleConnections)
	st, _ := openStore(t, storePath(t))
	ours, err := MapperProvider(st)(srv.Config(), httpClient)
	must(t, err)
	theirs, err := apiutil.NewDynamicRESTMapper(srv.Config(), httpClient)
	must(t, err)

	// Queries with an empty group come last. apiutil's RESTMapper knows only the groups of earlier queries, and an empty
	// group matches any of these.
	var queries []func(m meta.RESTMapper) (any, error)
	for _, gvr := range []schema.GroupVersionResource{
		pods, nodes, deployments, widgets, secrets,
		{Group: "apps", Version: "v1", Resource: "deployment"}, {Group: "apps", Resource: "deployments"},
		{Group: "larder.dev", Resource: "widget"},
		{Group: "apps", Version: "v2", Resource: "deployments"}, {Group: "apps", Version: "v1", Resource: "pods"},
		{Group: "none", Version: "v1", Resource: "pods"},
		{Version: "v1", Resource: "pod"}, {Resource: "pods"}, {Resource: "deployments"}, {Resource: "things"},
	} {
		queries = append(queries,
			func(m meta.RESTMapper) (any, error) { return m.KindFor(gvr) },
			func(m meta.RESTMapper) (any, error) { return m.KindsFor(gvr) },
			func(m meta.RESTMapper) (any, error) { return m.ResourceFor(gvr) },
			func(m meta.RESTMapper) (any, error) { return m.ResourcesFor(gvr) },
			func(m meta.RESTMapper) (any, error) { return m.ResourceSingularizer(gvr.Resource) })
	}
	for _, gvk := range []schema.GroupVersionKind{
		podKind, secretKind, widgetKind, deployments.GroupVersion().WithKind("Deployment"),
		nodes.GroupVersion().WithKind("Node"),
		{Group: "apps", Version: "v2", Kind: "Deployment"}, {Group: "apps", Version: "v1", Kind: "Pod"},
		{Group: "none", Version: "v1", Kind: "Pod"},
	} {
		queries = append(queries,
			func(m meta.RESTMapper) (any, error) { return m.RESTMapping(gvk.GroupKind(), gvk.Version) },
			func(m meta.RESTMapper) (any, error) { return m.RESTMapping(gvk.GroupKind()) },
			func(m meta.RESTMapper) (any, error) { return m.RESTMappings(gvk.GroupKind(), gvk.Version) })
	}
	found := 0
	for _, online := range []bool{true, false} {
		if !online {
			srv.Stop()
		}
		for i, query := range queries {
			want, wantErr := query(theirs)
			got, err := query(ours)
			switch {
			// Without a server, both mappers would send a request for an unknown kind.
			case !online && wantErr != nil:
			case !reflect.DeepEqual(got, want):
				t.Errorf("query %d, online %t: %v, want %v", i, online, got, want)
			case (err == nil) != (wantErr == nil) || meta.IsNoMatchError(err) != meta.IsNoMatchError(wantErr):
				t.Errorf("query %d, online %t: %v, want %v", i, online, err, wantErr)
			default:
				found++
			}
		}
	}
	if found < len(queries) {
		t.Errorf("%d answers were the same, of %s", found, fmt.Sprint(2*len(queries)))
	}
}
