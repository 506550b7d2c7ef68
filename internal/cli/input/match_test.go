package input_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/cli/clitest"
	"github.com/larder-dev/larder/internal/facts"
	"github.com/larder-dev/larder/internal/source"
)

// TestMatch checks that a name means the resource that kubectl chooses: the first of several, in the order of
// discovery.
func TestMatch(t *testing.T) {
	nameless := source.Resource{GroupVersionResource: schema.GroupVersionResource{Group: "example.com", Version: "v1",
		Resource: "gadgets"}}
	retired := clitest.Resource("example.com", "v1alpha1", "gizmos", "Gizmo")
	retired.Retired = true
	known := []source.Resource{clitest.Pods, clitest.Events, clitest.Deployments, clitest.NewEvents, clitest.Widgets,
		nameless, retired}
	for arg, want := range map[string]source.Resource{
		"pods": clitest.Pods, "pod": clitest.Pods, "Pod": clitest.Pods, "PODS": clitest.Pods,
		"pods.v1": clitest.Pods, "pods.v1.": clitest.Pods, "pods.v2": {}, "pods.apps": {},
		"deploy": clitest.Deployments, "deploy.apps": clitest.Deployments, "deployments.v1.apps": clitest.Deployments,
		"deployments.v2.apps": {},
		"events":              clitest.Events, "ev": clitest.Events, "events.v1.": clitest.Events,
		"events.events.k8s.io": clitest.NewEvents, "ev.events": clitest.NewEvents,
		"widgets.example.com": clitest.Widgets, "widgets.v1beta1.example.com": clitest.Widgets, "wd": clitest.Widgets,
		"po": clitest.Pods, "po.example.com": clitest.Widgets,
		"gadgets": nameless, "gadgets.example.com": nameless, "gadget": {},
		"gizmos": {}, "gizmos.example.com": {}, "gizmos.v1alpha1.example.com": retired,
		"": {}, ".example.com": {}, "nothing": {}, "example.com": {},
	} {
		got, ok := source.Match(arg, known)
		if got.Full() != want.Full() || ok != (want.Resource != "") {
			t.Errorf("%q: got %s, want %s", arg, got.Full(), want.Full())
		}
	}
}

// TestFullNamesBeforeShortNames checks that a name that is the plural of one resource and the short name of another
// means the plural.
func TestFullNamesBeforeShortNames(t *testing.T) {
	po := clitest.Resource("example.com", "v1", "po", "Po")
	if got, _ := source.Match("po", []source.Resource{clitest.Pods, po}); got.Full() != po.Full() {
		t.Errorf("got %s", got.Full())
	}
}

func TestMeanings(t *testing.T) {
	stored := func(requestedAs string, group, version, plural, kind string) source.Collection {
		r := clitest.Resource(group, version, plural, kind)
		if requestedAs != "" {
			r.RequestedAs = []string{requestedAs}
		}
		return source.NewCollection(entry.Info{Identity: entry.Identity{GroupVersionResource: r.GroupVersionResource},
			Resource: r.ResourceInfo})
	}
	lists := []*metav1.APIResourceList{
		{GroupVersion: "v1", APIResources: []metav1.APIResource{{Name: "services", SingularName: "service", Kind: "Service"}}},
		{GroupVersion: "z.example/v1", APIResources: []metav1.APIResource{{Name: "backups", Kind: "Backup"}}},
		{GroupVersion: "a.example/v1", APIResources: []metav1.APIResource{{Name: "backups", Kind: "Backup"}}},
		{GroupVersion: "b.example/v2", APIResources: []metav1.APIResource{{Name: "things", Kind: "Thing"}}},
		{GroupVersion: "c.example/v1", APIResources: []metav1.APIResource{{Name: "gears", Kind: "Gear"}}},
		{GroupVersion: "c.example/v2", APIResources: []metav1.APIResource{{Name: "gears", Kind: "Gear"}}},
	}
	var groups []*metav1.APIGroup
	for _, list := range lists {
		gv, _ := schema.ParseGroupVersion(list.GroupVersion)
		v := metav1.GroupVersionForDiscovery{GroupVersion: list.GroupVersion, Version: gv.Version}
		if n := len(groups); n > 0 && groups[n-1].Name == gv.Group {
			groups[n-1].Versions = append(groups[n-1].Versions, v)
			continue
		}
		groups = append(groups, &metav1.APIGroup{Name: gv.Group, Versions: []metav1.GroupVersionForDiscovery{v},
			PreferredVersion: v})
	}
	known := facts.DiscoveryOf(groups, lists)
	for _, tc := range []struct {
		name   string
		known  *facts.Discovery
		stored []source.Collection
		names  map[string]string
	}{
		{"the core group is first", nil, []source.Collection{
			stored("", "", "v1", "services", "Service"), stored("", "serving.knative.dev", "v1", "services", "Service"),
		}, map[string]string{"services": "services.v1.", "service": "services.v1.", "Service": "services.v1.",
			"services.serving.knative.dev": "services.v1.serving.knative.dev", "services.serving": "services.v1.serving.knative.dev"}},
		{"a name means the core resource, stored or not", nil, []source.Collection{
			stored("", "serving.knative.dev", "v1", "services", "Service"),
		}, map[string]string{"services": "", "svc": "", "services.serving.knative.dev": "services.v1.serving.knative.dev"}},
		{"the server's order of groups", &known, []source.Collection{
			stored("", "a.example", "v1", "backups", "Backup"), stored("", "z.example", "v1", "backups", "Backup"),
		}, map[string]string{"backups": "backups.v1.z.example", "backups.a.example": "backups.v1.a.example"}},
		{"the server means another one", &known, []source.Collection{
			stored("", "a.example", "v1", "backups", "Backup"),
		}, map[string]string{"backups": "", "backup": ""}},
		{"what a name meant when it was mirrored", &known, []source.Collection{
			stored("backups", "a.example", "v1", "backups", "Backup"),
		}, map[string]string{"backups": "backups.v1.a.example", "backup": ""}},
		{"without the order of the server, too", nil, []source.Collection{
			stored("", "a.example", "v1", "backups", "Backup"), stored("backups", "z.example", "v1", "backups", "Backup"),
		}, map[string]string{"backups": "backups.v1.z.example"}},
		{"by the alphabet, as a server does", nil, []source.Collection{
			stored("", "a.example", "v1", "backups", "Backup"), stored("", "z.example", "v1", "backups", "Backup"),
		}, map[string]string{"backups": "backups.v1.a.example"}},
		{"a version that the server has replaced", &known, []source.Collection{
			stored("things", "b.example", "v1", "things", "Thing"),
		}, map[string]string{"things": "", "things.b.example": "", "things.v1.b.example": "things.v1.b.example"}},
		{"another version than the preferred one", &known, []source.Collection{
			stored("", "c.example", "v2", "gears", "Gear"),
		}, map[string]string{"gears": "gears.v2.c.example"}},
		{"the preferred version", &known, []source.Collection{
			stored("", "c.example", "v2", "gears", "Gear"), stored("", "c.example", "v1", "gears", "Gear"),
		}, map[string]string{"gears": "gears.v1.c.example"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			source.SetMeanings(tc.stored, tc.known)
			var all []source.Resource
			for _, c := range tc.stored {
				all = append(all, c.Named())
			}
			for name, want := range tc.names {
				got, ok := source.Match(name, all)
				if full := got.Full(); ok != (want != "") || ok && full != want {
					t.Errorf("%q is %s, want %q", name, full, want)
				}
			}
		})
	}
}
