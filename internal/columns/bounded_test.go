package columns_test

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/columns"
)

// TestBoundedPaths checks the limits of custom columns. A JSONPath whose results can outnumber the values of an object
// has an empty cell, and the texts of a row are limited (issue 37: ..a..a..a took 600 MB).
func TestBoundedPaths(t *testing.T) {
	deep := map[string]any{}
	for range 3_000 {
		deep = map[string]any{"a": deep}
	}
	o := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "x"}, "deep": deep,
		"list": []any{map[string]any{"type": "Ready", "status": "True"}}, "text": strings.Repeat("x", 1<<20)}}
	custom := []entry.Column{{Name: "text", Type: "string", JSONPath: ".text"}}
	for path := range map[string]bool{"..a..a..a": true, "..a": true, "['deep','deep']": true, "}{range .list[*]}{.type}{end": true,
		".list[?(@..a)]": true, "." + strings.Repeat("a", 2000): true, ".list": true} {
		custom = append(custom, entry.Column{Name: path, Type: "string", JSONPath: path})
	}
	for i, cell := range columns.For(schema.GroupResource{Group: "example.com", Resource: "things"}, custom, false).
		Row(o, time.Time{}) {
		if want := map[int]int{0: 1, 1: 1 << 20}[i]; cell == nil && want > 0 || cell != nil && len(cell.(string)) != want {
			t.Errorf("column %d: %.100v, want %d bytes", i, cell, want)
		}
	}
	ready := []entry.Column{{Name: "ready", Type: "string", JSONPath: `.list[?(@.type=="Ready")].status`}}
	row := columns.For(schema.GroupResource{Group: "example.com", Resource: "things"}, ready, false).Row(o, time.Time{})
	if len(row) != 2 || row[1] != "True" {
		t.Errorf("%v", row)
	}
}
