package query

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/cli/clitest"
	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/internal/cli/input"
)

func widget(namespace, name string, age time.Duration) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1beta1", "kind": "Widget",
		"metadata": map[string]any{"name": name, "creationTimestamp": clitest.Now.Add(-age).Format(time.RFC3339)},
		"spec": map[string]any{
			"text": "several\n\nlines\n  with <b>&</b> \"quotes\"\n", "trailing": "x\n\n", "n": int64(1), "f": 1.5, "nil": nil,
			"e":    []any{},
			"list": []any{map[string]any{"a": "- not an item", "b": []any{[]any{"x"}}}, "# no comment"},
		},
	}}
	if namespace != "" {
		u.SetNamespace(namespace)
	}
	return u
}

func printAll(
	t *testing.T, f printFlags, single, all bool, of input.Resource, objects ...*unstructured.Unstructured,
) string {
	t.Helper()
	var out bytes.Buffer
	p, err := f.printer(clitest.IO(&out), single, all)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.begin(input.Choice{Resource: of}, false); err != nil {
		t.Fatal(err)
	}
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

func withOutput(format string) printFlags {
	f := newPrintFlags()
	f.output = format
	return f
}

func kubectlPrinter(format string) printers.ResourcePrinter {
	if format == "json" {
		return &printers.JSONPrinter{}
	}
	return &printers.YAMLPrinter{}
}

func TestListsEqualKubectl(t *testing.T) {
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
				if d := cmp.Diff(want.String(), printAll(t, withOutput(format), false, false, clitest.Widgets,
					objects...)); d != "" {
					t.Error(d)
				}
			})
		}
	}
}

func TestSingleEqualsKubectl(t *testing.T) {
	u := widget("ns", "w", time.Hour)
	for _, format := range []string{"json", "yaml"} {
		var want bytes.Buffer
		if err := kubectlPrinter(format).PrintObj(u, &want); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want.String(), printAll(t, withOutput(format), true, false, clitest.Widgets, u)); d != "" {
			t.Error(format, d)
		}
	}
}

func TestManagedFields(t *testing.T) {
	for _, format := range []string{"json", "yaml", "kyaml", "jsonpath={..metadata}", "custom-columns=X:.metadata"} {
		for _, single := range []bool{true, false} {
			u := widget("ns", "w", time.Hour)
			u.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "somebody"}})
			// Like kubectl, templates and custom columns see managedFields, too.
			want := strings.Contains(format, "=")
			text := printAll(t, withOutput(format), single, false, clitest.Widgets, u.DeepCopy())
			if got := strings.Contains(text, "somebody"); got != want {
				t.Errorf("%s, single %t: managedFields %t, want %t", format, single, got, want)
			}
			f := withOutput(format)
			f.managedFields = true
			if !strings.Contains(printAll(t, f, single, false, clitest.Widgets, u), "somebody") {
				t.Errorf("%s, single %t: no managedFields", format, single)
			}
		}
	}
}

func TestNamesAndTables(t *testing.T) {
	bare := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Thing",
		"metadata": map[string]any{"name": "n"}}}
	a, b := widget("a", "x", 90*time.Second), widget("bbbbbbbbbbb", "long-name", 50*time.Hour)
	a.SetLabels(map[string]string{"app": "web", "example.com/tier": "1"})
	custom := clitest.Widgets
	custom.Columns = []entry.Column{{Name: "Number", Type: "integer", JSONPath: ".spec.n"},
		{Name: "Float", Type: "number", JSONPath: ".spec.f", Priority: 1}}
	with := func(format string, change func(*printFlags)) printFlags {
		f := withOutput(format)
		change(&f)
		return f
	}
	for _, tc := range []struct {
		name, got, want string
	}{
		{"names", printAll(t, withOutput("name"), false, false, clitest.Widgets, bare, a), "thing/n\nwidget.example.com/x\n"},
		{"one namespace", printAll(t, withOutput("table"), false, false, clitest.Widgets, a, b),
			"NAME        AGE\nx           90s\nlong-name   2d2h\n"},
		{"all namespaces", printAll(t, withOutput(""), false, true, clitest.Widgets, a, b),
			"NAMESPACE     NAME        AGE\na             x           90s\nbbbbbbbbbbb   long-name   2d2h\n"},
		{"no age", printAll(t, withOutput("table"), false, false, clitest.Widgets, bare), "NAME   AGE\nn      <unknown>\n"},
		{"none", printAll(t, withOutput("table"), false, true, clitest.Widgets), ""},
		{"wide", printAll(t, withOutput("wide"), false, false, custom, a), "NAME   NUMBER   FLOAT\nx      1        1.5\n"},
		{"not wide", printAll(t, withOutput("table"), false, false, custom, a), "NAME   NUMBER\nx      1\n"},
		{"labels",
			printAll(t, with("", func(f *printFlags) { f.showLabels, f.labels = true, []string{"app", "example.com/tier"} }),
				false, false, clitest.Widgets, a, b),
			"NAME        AGE    APP   TIER   LABELS\nx           90s    web   1      app=web,example.com/tier=1\nlong-name   " +
				"2d2h                <none>\n"},
		{"kind, no headers", printAll(t, with("", func(f *printFlags) { f.showKind, f.noHeaders = true, true }), false, false,
			clitest.Widgets, a, b),
			"widget.example.com/x           90s\nwidget.example.com/long-name   2d2h\n"},
		{"sorted", printAll(t, with("", func(f *printFlags) { f.sortBy = "metadata.namespace" }), false, true,
			clitest.Widgets, b,
			a, bare),
			"NAMESPACE     NAME        AGE\n              n           <unknown>\na             x           90s\nbbbbbbbbbbb  " +
				" long-name   2d2h\n"},
		{"sorted names", printAll(t, with("name", func(f *printFlags) { f.sortBy = "{.metadata.name}" }), false, true,
			clitest.Widgets, a, bare, b),
			"widget.example.com/long-name\nthing/n\nwidget.example.com/x\n"},
		{"custom columns", printAll(t, withOutput("custom-columns=N:.metadata.name,L:{.spec.list[*].a},E:.spec.none"), false,
			false, clitest.Widgets, a, bare),
			"N     L               E\nx     - not an item   <none>\nn     <none>          <none>\n"},
		{"no custom columns", printAll(t, withOutput("custom-columns=N:.metadata.name"), false, false, clitest.Widgets),
			"N\n"},
		{"jsonpath of a list", printAll(t, withOutput("jsonpath={.items[*].metadata.name}"), false, false, clitest.Widgets, a,
			b),
			"x long-name"},
		{"jsonpath of one", printAll(t, withOutput("jsonpath={.metadata.name}"), true, false, clitest.Widgets, a), "x"},
		{"go-template", printAll(t, withOutput("go-template={{len .items}}{{.missing}}"), false, false, clitest.Widgets, a,
			b),
			"2<no value>"},
	} {
		if d := cmp.Diff(tc.want, tc.got); d != "" {
			t.Error(tc.name, d)
		}
	}
}

// TestOrderOfFlowSchemas checks that FlowSchemas are printed by precedence, like kubectl, unless --sort-by gives
// another order. The next resource of the command is sorted by name.
func TestOrderOfFlowSchemas(t *testing.T) {
	flows := clitest.Widgets
	flows.GroupVersionResource = schema.GroupVersionResource{Group: "flowcontrol.apiserver.k8s.io", Version: "v1",
		Resource: "flowschemas"}
	for sortBy, want := range map[string]string{"": "b\nc\na\n\nb\na\n", ".metadata.name": "a\nb\nc\n\na\nb\n"} {
		var out bytes.Buffer
		f := newPrintFlags()
		f.sortBy, f.noHeaders = sortBy, false
		p, err := f.printer(clitest.IO(&out), false, false)
		if err != nil {
			t.Fatal(err)
		}
		flow := func(name string, precedence int64) error {
			u := widget("", name, time.Hour)
			u.Object["spec"] = map[string]any{"matchingPrecedence": precedence}
			return p.object(u)
		}
		err = errors.Join(p.begin(input.Choice{Resource: flows}, false), flow("a", 9000), flow("b", 1), flow("c", 1),
			p.begin(input.Choice{Resource: clitest.Widgets}, false), flow("b", 2), flow("a", 1), p.finish())
		var names strings.Builder
		for line := range strings.Lines(out.String()) {
			if name, _, _ := strings.Cut(strings.TrimSpace(line), " "); name != "NAME" {
				names.WriteString(name + "\n")
			}
		}
		if err != nil || names.String() != want {
			t.Errorf("--sort-by %q: %v, %q", sortBy, err, names.String())
		}
	}
}

// TestSeveralTables checks that an empty line separates the tables of several resources, and that a resource without
// objects adds none.
func TestSeveralTables(t *testing.T) {
	var out bytes.Buffer
	f := newPrintFlags()
	p, err := f.printer(clitest.IO(&out), false, false)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		of      input.Resource
		objects []*unstructured.Unstructured
	}{
		{clitest.Pods, nil}, {clitest.Widgets, []*unstructured.Unstructured{widget("a", "x", time.Hour)}},
		{clitest.Deployments, nil}, {clitest.Events, nil},
		{clitest.Widgets, []*unstructured.Unstructured{widget("a", "longer", time.Hour), widget("a", "y", time.Hour)}},
	} {
		if err := p.begin(input.Choice{Resource: c.of}, true); err != nil {
			t.Fatal(err)
		}
		for _, u := range c.objects {
			if err := p.object(u); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := p.finish(); err != nil {
		t.Fatal(err)
	}
	want := "NAME                   AGE\nwidget.example.com/x   60m\n\n" +
		"NAME                        AGE\nwidget.example.com/longer   60m\nwidget.example.com/y        60m\n"
	if d := cmp.Diff(want, out.String()); d != "" {
		t.Error(d)
	}
}

// TestTableStreams checks that a long table is printed while objects are read. Only the rows that determine the column
// widths are buffered.
func TestTableStreams(t *testing.T) {
	var out bytes.Buffer
	f := newPrintFlags()
	p := &tablePrinter{s: clitest.IO(&out), flags: &f}
	if err := p.begin(input.Choice{Resource: clitest.Widgets}, false); err != nil {
		t.Fatal(err)
	}
	for i := range 3 * tableSample {
		name := "x"
		if i == 2*tableSample {
			name = "wider-than-the-column"
		}
		if err := p.object(widget("a", name, time.Hour)); err != nil {
			t.Fatal(err)
		}
		if len(p.rows) > tableSample {
			t.Fatalf("%d rows are held back", len(p.rows))
		}
	}
	if err := p.finish(); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(out.String(), "\n")
	if len(lines) != 3*tableSample+2 || lines[1] != "x      60m" ||
		lines[2*tableSample+1] != "wider-than-the-column   60m" {
		t.Errorf("%d lines, %q, %q", len(lines), lines[1], lines[2*tableSample+1])
	}
}

// TestTableOfFailingWriter checks that a write error is returned, although cli-runtime's table printer ignores it.
func TestTableOfFailingWriter(t *testing.T) {
	full := errors.New("no space")
	f := newPrintFlags()
	p := &tablePrinter{s: command.IO{Out: writerFunc(func([]byte) (int, error) { return 0, full }), Now: time.Now},
		flags: &f}
	err := errors.Join(p.begin(input.Choice{Resource: clitest.Widgets}, false), p.object(widget("a", "x", time.Hour)),
		p.finish())
	if !errors.Is(err, full) {
		t.Errorf("got %v", err)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

func TestSize(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1536: "1.5 KiB", 999 << 10: "999.0 KiB", 1 << 20: "1.0 MiB",
		1 << 30: "1.0 GiB", 5 << 40: "5.0 TiB", 5000 << 40: "5000.0 TiB",
	} {
		if got := command.Size(n); got != want {
			t.Errorf("%d: got %s, want %s", n, got, want)
		}
	}
}
