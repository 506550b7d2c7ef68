package cli

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/larder-dev/larder/internal/cli/clitest"
)

// TestRedefined checks that a running sync rereads the names and columns of a custom resource when its definition
// changes, and when the definition is deleted and created again. kube-apiserver then ends the watches of the resource
// with a 410 (issue 38, D.11).
func TestRedefined(t *testing.T) {
	server := clitest.StartWithWidgets(t)
	define := func(generation int64, short, column string) *unstructured.Unstructured {
		u := clitest.WidgetDefinition()
		u.SetGeneration(generation)
		names, _, _ := unstructured.NestedMap(u.Object, "spec", "names")
		names["shortNames"] = []any{short}
		version := map[string]any{"name": "v1beta1", "served": true, "additionalPrinterColumns": []any{
			map[string]any{"name": column, "type": "string", "jsonPath": ".spec.size"}}}
		_ = unstructured.SetNestedMap(u.Object, names, "spec", "names")
		_ = unstructured.SetNestedSlice(u.Object, []any{version}, "spec", "versions")
		return u
	}
	if _, err := server.Create(clitest.Definitions, define(1, "wd", "First")); err != nil {
		t.Fatal(err)
	}
	widget := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"size": "3"}}}
	widget.SetGroupVersionKind(clitest.Widgets.GroupVersion().WithKind("Widget"))
	widget.SetName("w")
	widget.SetNamespace("default")
	if _, err := server.Create(clitest.Widgets.GroupVersionResource, widget); err != nil {
		t.Fatal(err)
	}
	store := filepath.Join(t.TempDir(), "s.db")
	redefined := func() { // kube-apiserver ends the watches with a 410 when a definition changes
		server.Compact()
		server.BreakWatches(clitest.Widgets.GroupVersionResource, "EOF")
	}
	prints := func(name, column string) {
		t.Helper()
		for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
			_, out, errs := runs(t.Context(), "get", name, "--from", store)
			if strings.Contains(out, strings.ToUpper(column)) {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("get %s: %s%s", name, out, errs)
			}
		}
	}
	whileSyncing(t, store, server.Config().Host, []string{"widgets"}, "live", func() {
		prints("wd", "First")
		if _, err := server.Update(clitest.Definitions, define(2, "wg", "Second")); err != nil {
			t.Fatal(err)
		}
		redefined()
		prints("wg", "Second")
		if err := server.Delete(clitest.Definitions, "", "widgets.example.com"); err != nil {
			t.Fatal(err)
		}
		if _, err := server.Create(clitest.Definitions, define(1, "wx", "Third")); err != nil {
			t.Fatal(err)
		}
		redefined()
		prints("wx", "Third")
		gets := server.Counts(clitest.Definitions).Gets
		watches := server.Counts(clitest.Widgets.GroupVersionResource).Watches
		// A lost connection is not a change of the definition.
		server.BreakWatches(clitest.Widgets.GroupVersionResource, "EOF")
		for server.Counts(clitest.Widgets.GroupVersionResource).Watches == watches {
			time.Sleep(10 * time.Millisecond)
		}
		if now := server.Counts(clitest.Definitions).Gets; now != gets {
			t.Errorf("%d requests for the definition after a cut connection", now-gets)
		}
	})
}
