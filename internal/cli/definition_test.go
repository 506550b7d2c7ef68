package cli

import (
	"context"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/cli/clitest"
	"github.com/larder-dev/larder/internal/cli/cluster"
	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/internal/fakeapi"
	"github.com/larder-dev/larder/store"
)

var definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1",
	Resource: "customresourcedefinitions"}

// startWithWidgets starts a server that has widgets, and serves definitions.
func startWithWidgets(t *testing.T) *fakeapi.Server {
	t.Helper()
	server := fakeapi.New(fakeapi.Options{Resources: []fakeapi.Resource{
		{GroupVersionResource: clitest.Widgets.GroupVersionResource, Kind: "Widget", Singular: "widget", ShortNames: []string{"wd"},
			Namespaced: true},
		{GroupVersionResource: definitions, Kind: "CustomResourceDefinition", Singular: "customresourcedefinition"},
	}})
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	return server
}

func widgetDefinition() *unstructured.Unstructured {
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

// runWidgets mirrors widgets until what the file says of them is as wanted.
func runWidgets(t *testing.T, server *fakeapi.Server, path string, want entry.ResourceInfo) {
	t.Helper()
	st, err := store.Open(path, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	server.ResetCounts()
	defer func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	}()
	pl := planner{storePath: path, config: server.Config()}
	plan, err := pl.plan(t.Context(), nil,
		[]cluster.Wanted{{Name: "widgets", Representation: entry.Unstructured}})
	if err != nil {
		t.Fatal(err)
	}
	m := newMirror(st)
	mb, err := newMember(t.Context(), st, plan[0], memberOptions{})
	if err != nil {
		t.Fatal(err)
	}
	m.members = []*member{mb}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.run(ctx) }()
	describedAs := func() entry.ResourceInfo {
		infos, err := st.Collections(t.Context())
		if err != nil || len(infos) != 1 {
			t.Fatal(infos, err)
		}
		return infos[0].Resource
	}
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if server.Counts(definitions).Gets > 0 && cmp.Equal(describedAs(), want) {
			break
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	got := describedAs()
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// TestDefinition: names and columns of a custom resource are those of its definition, in the version that is mirrored.
// Without one, or without the right to read it, what was known stays.
func TestDefinition(t *testing.T) {
	server := startWithWidgets(t)
	path := filepath.Join(t.TempDir(), "s.db")
	plain := entry.ResourceInfo{Kind: "Widget", Singular: "widget", ShortNames: []string{"wd"}, Namespaced: true}
	runWidgets(t, server, path, plain)
	if _, err := server.Create(definitions, widgetDefinition()); err != nil {
		t.Fatal(err)
	}
	full := entry.ResourceInfo{
		Kind: "Widget", Singular: "widget", ShortNames: []string{"wd"}, Namespaced: true, Categories: []string{"all"},
		Columns: []entry.Column{{Name: "Size", Type: "string", Priority: 1, JSONPath: ".spec.size"}},
	}
	runWidgets(t, server, path, full)
	server.InjectFault(fakeapi.Fault{Verb: "get", Resource: "customresourcedefinitions", Status: http.StatusForbidden,
		Reason: "Forbidden"})
	runWidgets(t, server, path, full)
}

// TestLiveSaveHasColumns: a snapshot of a live server has the columns of custom resources, as one of a store has.
func TestLiveSaveHasColumns(t *testing.T) {
	server := startWithWidgets(t)
	if _, err := server.Create(definitions, widgetDefinition()); err != nil {
		t.Fatal(err)
	}
	w := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"namespace": "a", "name": "w"},
		"spec": map[string]any{"size": "enormous"}}}
	w.SetGroupVersionKind(clitest.Widgets.GroupVersion().WithKind("Widget"))
	if _, err := server.Create(clitest.Widgets.GroupVersionResource, w); err != nil {
		t.Fatal(err)
	}
	for _, resources := range [][]string{nil, {"widgets"}} {
		path := filepath.Join(t.TempDir(), "s.larder")
		if code, _, errs := runs(t.Context(), append([]string{"snapshot", "save", path, "--server=" + server.Config().Host},
			resources...)...); code != command.OK {
			t.Fatal(errs)
		}
		_, out, errs := runs(t.Context(), "get", "widgets", "-A", "-o", "wide", "--from", path)
		if !strings.Contains(out, "SIZE") || !strings.Contains(out, "enormous") {
			t.Errorf("%q: %s %s", resources, out, errs)
		}
	}
}

func TestIsCustom(t *testing.T) {
	for gvr, want := range map[schema.GroupVersionResource]bool{
		clitest.Pods.GroupVersionResource: false, clitest.Deployments.GroupVersionResource: false, clitest.NewEvents.GroupVersionResource: false,
		clitest.Widgets.GroupVersionResource: true, {Group: "gateway.networking.k8s.io", Version: "v1", Resource: "gateways"}: true,
	} {
		if cluster.IsCustom(gvr) != want {
			t.Errorf("%s: %t", gvr, !want)
		}
	}
}
