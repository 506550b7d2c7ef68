package input_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/larder-dev/larder/internal/cli/clitest"
	"github.com/larder-dev/larder/internal/cli/input"
)

func TestMatchResource(t *testing.T) {
	nameless := input.Resource{GroupVersionResource: schema.GroupVersionResource{Group: "example.com", Version: "v1",
		Resource: "gadgets"}}
	known := []input.Resource{clitest.Pods, clitest.Events, clitest.Deployments, clitest.NewEvents, clitest.Widgets,
		nameless}
	for arg, want := range map[string][]input.Resource{
		"pods": {clitest.Pods}, "pod": {clitest.Pods}, "Pod": {clitest.Pods}, "PODS": {clitest.Pods},
		"pods.v1": {clitest.Pods}, "pods.v1.": {clitest.Pods}, "pods.v2": nil, "pods.apps": nil,
		"deploy": {clitest.Deployments}, "deploy.apps": {clitest.Deployments}, "deployments.v1.apps": {clitest.Deployments},
		"deployments.v2.apps": nil,
		"events":              {clitest.Events, clitest.NewEvents}, "ev": {clitest.Events, clitest.NewEvents},
		"events.v1.":           {clitest.Events},
		"events.events.k8s.io": {clitest.NewEvents},
		"widgets.example.com":  {clitest.Widgets}, "widgets.v1beta1.example.com": {clitest.Widgets}, "wd": {clitest.Widgets},
		"po": {clitest.Pods, clitest.Widgets}, "po.example.com": {clitest.Widgets},
		"gadgets": {nameless}, "gadgets.example.com": {nameless}, "gadget": nil,
		"": nil, ".example.com": nil, "nothing": nil, "example.com": nil,
	} {
		got := input.MatchResource(arg, known)
		if input.Names(got, input.Resource.Full) != input.Names(want, input.Resource.Full) {
			t.Errorf("%q: got %s, want %s", arg, input.Names(got, input.Resource.Full), input.Names(want, input.Resource.Full))
		}
	}
}

// A short name does not hide a resource that is really called so.
func TestFullNamesBeforeShortNames(t *testing.T) {
	po := clitest.Resource("example.com", "v1", "po", "Po")
	got := input.MatchResource("po", []input.Resource{clitest.Pods, po})
	if input.Names(got, input.Resource.Full) != po.Full() {
		t.Errorf("got %s", input.Names(got, input.Resource.Full))
	}
}
