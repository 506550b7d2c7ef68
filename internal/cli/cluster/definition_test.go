package cluster_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/larder-dev/larder/internal/cli/clitest"
	"github.com/larder-dev/larder/internal/cli/cluster"
)

func TestIsCustom(t *testing.T) {
	for gvr, want := range map[schema.GroupVersionResource]bool{
		clitest.Pods.GroupVersionResource: false, clitest.Deployments.GroupVersionResource: false,
		clitest.NewEvents.GroupVersionResource:                                    false,
		clitest.Widgets.GroupVersionResource:                                      true,
		{Group: "gateway.networking.k8s.io", Version: "v1", Resource: "gateways"}: true,
	} {
		if cluster.IsCustom(gvr) != want {
			t.Errorf("%s: %t", gvr, !want)
		}
	}
}
