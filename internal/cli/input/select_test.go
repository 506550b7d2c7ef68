package input_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/cli/input"
	"github.com/larder-dev/larder/internal/source"
)

func TestFilterNamesOneResource(t *testing.T) {
	info := func(kind string) entry.ResourceInfo {
		return entry.ResourceInfo{Kind: kind, Namespaced: true, Categories: []string{"all"}}
	}
	var all []source.Collection
	for _, gvr := range []schema.GroupVersionResource{
		{Version: "v1", Resource: "pods"}, {Version: "v1", Resource: "events"},
		{Group: "events.k8s.io", Version: "v1", Resource: "events"},
		{Group: "apps", Version: "v1", Resource: "deployments"},
	} {
		c := source.NewCollection(entry.Info{Identity: entry.Identity{GroupVersionResource: gvr},
			Resource: info(strings.TrimSuffix(gvr.Resource, "s"))})
		all = append(all, c)
	}
	source.SetMeanings(all, nil)
	for arg, want := range map[string][]string{
		"pods": {"pods"}, "deployment,pod": {"deployments.apps", "pods"}, "events": {"events.v1."},
		"events.events.k8s.io": {"events.v1.events.k8s.io"}, "pods,pods": {"pods"},
		"all": {"pods", "events.v1.", "deployments.apps", "events.v1.events.k8s.io"},
	} {
		f, err := (&input.SelectFlags{}).Filter("s", []string{arg}, all)
		less := func(a []string) map[string]bool {
			m := map[string]bool{}
			for _, x := range a {
				m[x] = true
			}
			return m
		}
		if d := cmp.Diff(less(want), less(f.Resources)); d != "" || err != nil {
			t.Errorf("%s: %s, %v", arg, d, err)
		}
	}
	if _, err := (&input.SelectFlags{}).Filter("s", []string{"gadgets"}, all); err == nil ||
		!strings.Contains(err.Error(), `no resource "gadgets"`) {
		t.Errorf("got %v", err)
	}
}
