package cli

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/printers"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func testIO(out *bytes.Buffer) IO {
	return IO{Out: out, Err: out, Now: func() time.Time { return now }}
}

func widget(namespace, name string, age time.Duration) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1beta1", "kind": "Widget",
		"metadata": map[string]any{"name": name, "creationTimestamp": now.Add(-age).Format(time.RFC3339)},
		"spec": map[string]any{
			"text": "several\n\nlines\n  with <b>&</b> \"quotes\"\n", "trailing": "x\n\n", "n": int64(1), "f": 1.5, "nil": nil, "e": []any{},
			"list": []any{map[string]any{"a": "- not an item", "b": []any{[]any{"x"}}}, "# no comment"},
		},
	}}
	if namespace != "" {
		u.SetNamespace(namespace)
	}
	return u
}

func printAll(t *testing.T, format string, single, withNamespace bool, objects ...*unstructured.Unstructured) string {
	t.Helper()
	var out bytes.Buffer
	p := newPrinter(testIO(&out), format, single, withNamespace)
	for _, u := range objects {
		if err := p.object(u); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.finish(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func kubectlPrinter(format string) printers.ResourcePrinter {
	if format == "json" {
		return &printers.JSONPrinter{}
	}
	return &printers.YAMLPrinter{}
}

// The streamed lists are what kubectl's own printers make of the whole.
func TestListsAreKubectls(t *testing.T) {
	for _, format := range []string{"json", "yaml"} {
		for n := range 4 {
			t.Run(fmt.Sprintf("%s of %d", format, n), func(t *testing.T) {
				items := []any{}
				var objects []*unstructured.Unstructured
				for i := range n {
					u := widget("ns", fmt.Sprintf("w%d", i), time.Hour)
					objects = append(objects, u)
					items = append(items, u.Object)
				}
				whole := &unstructured.Unstructured{Object: map[string]any{
					"apiVersion": "v1", "kind": "List", "metadata": map[string]any{"resourceVersion": ""}, "items": items,
				}}
				var want bytes.Buffer
				if err := kubectlPrinter(format).PrintObj(whole, &want); err != nil {
					t.Fatal(err)
				}
				if d := cmp.Diff(want.String(), printAll(t, format, false, false, objects...)); d != "" {
					t.Error(d)
				}
			})
		}
	}
}

func TestSingleIsKubectls(t *testing.T) {
	u := widget("ns", "w", time.Hour)
	for _, format := range []string{"json", "yaml"} {
		var want bytes.Buffer
		if err := kubectlPrinter(format).PrintObj(u, &want); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want.String(), printAll(t, format, true, false, u)); d != "" {
			t.Error(format, d)
		}
	}
}

func TestNamesAndTables(t *testing.T) {
	bare := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Node", "metadata": map[string]any{"name": "n"}}}
	a, b := widget("a", "x", 90*time.Second), widget("bbbbbbbbbbb", "long-name", 50*time.Hour)
	for _, tc := range []struct {
		name, got, want string
	}{
		{"names", printAll(t, "name", false, false, bare, a), "node/n\nwidget.example.com/x\n"},
		{"one namespace", printAll(t, "table", false, false, a, b), "NAME        AGE\nx           90s\nlong-name   2d2h\n"},
		{"all namespaces", printAll(t, "table", false, true, a, b),
			"NAMESPACE     NAME        AGE\na             x           90s\nbbbbbbbbbbb   long-name   2d2h\n"},
		{"no age", printAll(t, "table", false, false, bare), "NAME   AGE\nn      <unknown>\n"},
		{"none", printAll(t, "table", false, true), ""},
	} {
		if d := cmp.Diff(tc.want, tc.got); d != "" {
			t.Error(tc.name, d)
		}
	}
}

// A long table streams: it holds back no more rows than it needs for its widths.
func TestTableHoldsBackLittle(t *testing.T) {
	var out bytes.Buffer
	tab := newTable(&out, "A", "B")
	for i := range 3 * tableSample {
		cell := "x"
		if i == 2*tableSample {
			cell = "wider than the column"
		}
		if err := tab.row(cell, "y"); err != nil {
			t.Fatal(err)
		}
		if len(tab.rows) > tableSample {
			t.Fatalf("%d rows are held back", len(tab.rows))
		}
	}
	if err := tab.flush(); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(out.String(), "\n")
	if len(lines) != 3*tableSample+2 || lines[1] != "x   y" || lines[2*tableSample+1] != "wider than the column   y" {
		t.Errorf("%d lines, %q, %q", len(lines), lines[1], lines[2*tableSample+1])
	}
}

func TestSize(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1536: "1.5 KiB", 999 << 10: "999.0 KiB", 1 << 20: "1.0 MiB", 1 << 30: "1.0 GiB", 5 << 40: "5.0 TiB", 5000 << 40: "5000.0 TiB",
	} {
		if got := size(n); got != want {
			t.Errorf("%d: got %s, want %s", n, got, want)
		}
	}
}
