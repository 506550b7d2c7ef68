package clitest

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/larder-dev/larder/internal/fakeapi"
)

var Definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1",
	Resource: "customresourcedefinitions"}

// StartWithWidgets starts a fake API server that serves the custom resource widgets and CustomResourceDefinitions.
func StartWithWidgets(t *testing.T) *fakeapi.Server {
	t.Helper()
	server := fakeapi.New(fakeapi.Options{Resources: []fakeapi.Resource{
		{GroupVersionResource: Widgets.GroupVersionResource, Kind: "Widget", Singular: "widget", ShortNames: []string{"wd"},
			Namespaced: true},
		{GroupVersionResource: Definitions, Kind: "CustomResourceDefinition", Singular: "customresourcedefinition"},
	}})
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	return server
}

func WidgetDefinition() *unstructured.Unstructured {
	column := func(name, path string) map[string]any {
		return map[string]any{"name": name, "type": "string", "jsonPath": path, "priority": int64(1),
			"description": "left out"}
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": "widgets.example.com"},
		"spec": map[string]any{
			"scope": "Namespaced",
			"names": map[string]any{"kind": "Widget", "singular": "widget", "plural": "widgets", "shortNames": []any{"wd"},
				"categories": []any{"all"}},
			"versions": []any{
				map[string]any{"name": "v1alpha1", "additionalPrinterColumns": []any{column("Old", ".old")}},
				map[string]any{"name": "v1beta1", "additionalPrinterColumns": []any{column("Size", ".spec.size")}},
			},
		},
	}}
}
