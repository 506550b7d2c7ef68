package cluster_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/larder-dev/larder/internal/cli/clitest"
	"github.com/larder-dev/larder/internal/cli/cluster"
)

func connectWith(t *testing.T, d *unstructured.Unstructured) *cluster.Connection {
	t.Helper()
	server := clitest.StartWithWidgets(t)
	if _, err := server.Create(clitest.Definitions, d); err != nil {
		t.Fatal(err)
	}
	s, err := cluster.NewServer(server.Config())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	c, err := s.Connect()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestDeprecatedVersions checks the warnings about deprecated versions of a custom resource. The text comes from the
// definition, or names the newest served version that is not deprecated.
func TestDeprecatedVersions(t *testing.T) {
	version := func(name string, served, deprecated bool, warning ...string) map[string]any {
		v := map[string]any{"name": name, "served": served, "deprecated": deprecated}
		for _, w := range warning {
			v["deprecationWarning"] = w
		}
		return v
	}
	d := clitest.WidgetDefinition()
	spec, _ := d.Object["spec"].(map[string]any)
	spec["versions"] = []any{version("v1", true, false), version("v1alpha1", true, true), version("v2", true, false),
		version("v3", false, false), version("v4", true, true, "v4 is new, and old"), version("v5", true, true)}
	c := connectWith(t, d)
	for name, want := range map[string]string{
		"v1": "", "v1alpha1": "example.com/v1alpha1 Widget is deprecated; use example.com/v2 Widget",
		"v4": "v4 is new, and old", "v5": "example.com/v5 Widget is deprecated", "v6": "",
	} {
		gvr := clitest.Widgets.GroupVersionResource
		gvr.Version = name
		info, err := c.Define(t.Context(), gvr)
		if err != nil || info.Deprecated != want {
			t.Errorf("%s: %q, want %q; %v", name, info.Deprecated, want, err)
		}
		if info.ListKind != "" {
			t.Errorf("%s: ListKind %q of a definition that names none of its own", name, info.ListKind)
		}
		if len(info.Columns) != 1 || info.Columns[0].Name != "Age" {
			// The definition has no columns, so the default column is expected.
			t.Errorf("%s: columns %v", name, info.Columns)
		}
	}
}

// TestListKindOfADefinition checks that the list kind of a CustomResourceDefinition is used if it is not the default
// (the kind followed by List).
func TestListKindOfADefinition(t *testing.T) {
	d := clitest.WidgetDefinition()
	if err := unstructured.SetNestedField(d.Object, "WidgetSet", "spec", "names", "listKind"); err != nil {
		t.Fatal(err)
	}
	c := connectWith(t, d)
	info, err := c.Define(t.Context(), clitest.Widgets.GroupVersionResource)
	if err != nil || info.ListKind != "WidgetSet" {
		t.Errorf("%q, %v; want WidgetSet", info.ListKind, err)
	}
}

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
