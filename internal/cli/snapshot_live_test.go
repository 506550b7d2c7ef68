package cli

import (
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/larder-dev/larder/internal/cli/clitest"
	"github.com/larder-dev/larder/internal/cli/command"
)

func TestLiveSaveHasColumns(t *testing.T) {
	server := clitest.StartWithWidgets(t)
	if _, err := server.Create(clitest.Definitions, clitest.WidgetDefinition()); err != nil {
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
