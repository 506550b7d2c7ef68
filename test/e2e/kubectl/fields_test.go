package kubectl

import (
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	builtin "github.com/larder-dev/larder/internal/discovery"
	"github.com/larder-dev/larder/test/e2e/controlplane"
)

// TestFieldLabels checks that larder's table of field selectors equals kube-apiserver's. For every built-in resource it
// tries each field that any resource supports (issue 38). The commands get, watch and log and the served API use this
// table.
func TestFieldLabels(t *testing.T) {
	config := server.Config(controlplane.Writer)
	config.QPS, config.WarningHandler = -1, rest.NoWarnings{}
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	lists, err := client.ServerPreferredResources()
	if err != nil {
		t.Fatal(err)
	}
	labels := map[string]bool{"spec.host": true, "status.successful": true}
	type listed struct {
		path string
		schema.GroupResource
	}
	var all []listed
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			t.Fatal(err)
		}
		path := "/apis/" + list.GroupVersion
		if gv.Group == "" {
			path = "/api/" + gv.Version
		}
		for _, r := range list.APIResources {
			of := schema.GroupResource{Group: gv.Group, Resource: r.Name}
			if !slices.Contains(r.Verbs, "list") || !scheme.Scheme.IsGroupRegistered(gv.Group) {
				continue
			}
			all = append(all, listed{path + "/" + r.Name, of})
			known, _ := builtin.SelectableFields(of)
			for _, label := range known {
				labels[label] = true
			}
		}
	}
	if len(all) < 40 {
		t.Fatalf("only %d resources are built in", len(all))
	}
	for _, r := range all {
		for label := range labels {
			if r.Resource == "pods" && label == "spec.host" {
				continue // an old name of the field spec.nodeName
			}
			err := client.RESTClient().Get().AbsPath(r.path).Param("limit", "1").Param("fieldSelector", label+"=x").
				Do(t.Context()).Error()
			if err != nil && !apierrors.IsBadRequest(err) {
				t.Fatalf("%s by %s: %v", r.path, label, err)
			}
			if selects := builtin.IsSelectableField(r.GroupResource, label); selects != (err == nil) {
				t.Errorf("%s by %s: the table has it: %t; kube-apiserver: %v", r.path, label, selects, err)
			}
		}
	}
}
