package cluster_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/cli/cluster"
	"github.com/larder-dev/larder/internal/cli/input"
)

func TestEverythingOfAServer(t *testing.T) {
	var o cluster.Offers
	for _, gvr := range []schema.GroupVersionResource{
		{Version: "v1", Resource: "pods"}, {Version: "v1", Resource: "events"}, {Version: "v1", Resource: "nodes"},
		{Version: "v1", Resource: "bindings"},
		{Group: "apps", Version: "v1", Resource: "deployments"}, {Group: "apps", Version: "v1beta1", Resource: "deployments"},
		{Group: "events.k8s.io", Version: "v1", Resource: "events"},
	} {
		o.All = append(o.All, input.Resource{GroupVersionResource: gvr,
			ResourceInfo: entry.ResourceInfo{Namespaced: gvr.Resource != "nodes"}})
	}
	o.Unwatchable = map[schema.GroupVersionResource]bool{{Version: "v1", Resource: "bindings"}: true}
	if got := input.Names(o.Everything(false), input.Resource.Full); got != "pods.v1., nodes.v1., deployments.v1.apps" {
		t.Error(got)
	}
	if got := input.Names(o.Everything(true), input.Resource.Full); got != "pods.v1., deployments.v1.apps" {
		t.Error(got)
	}
}
