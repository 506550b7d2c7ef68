package metrics

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer/audit"
	"github.com/larder-dev/larder/reflector"
)

func constants(t *testing.T, file, typeName string) (values []string) {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(f, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 {
			return true
		}
		if of, ok := spec.Type.(*ast.Ident); ok && of.Name == typeName {
			value, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Error(err)
			}
			values = append(values, value)
		}
		return true
	})
	if len(values) == 0 {
		t.Fatalf("%s has no %s", file, typeName)
	}
	return values
}

// TestEachReasonHasALabel checks each reason to list and each cause of an incident, also in docs/troubleshooting.md.
func TestEachReasonHasALabel(t *testing.T) {
	doc, err := os.ReadFile("../docs/troubleshooting.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, reason := range constants(t, "../reflector/state.go", "Reason") {
		if reason == string(reflector.ReasonCold) {
			continue
		}
		if !slices.Contains(reflector.RelistReasons(), reflector.Reason(reason)) || !strings.Contains(string(doc), reason) {
			t.Errorf("the reason %s is not among those that are counted, or not in docs/troubleshooting.md", reason)
		}
	}
	table, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range constants(t, "../entry/info.go", "NoteKind") {
		if !slices.Contains(entry.NoteKinds, entry.NoteKind(kind)) || !strings.Contains(string(table), "| `"+kind+"` |") {
			t.Errorf("the note %s is not among entry.NoteKinds, or not in docs/metrics.md", kind)
		}
	}
	for _, cause := range constants(t, "../informer/audit/auditor.go", "Cause") {
		if !slices.Contains(audit.Causes(), audit.Cause(cause)) || !strings.Contains(string(doc), cause) {
			t.Errorf("the cause %s is not among those that are counted, or not in docs/troubleshooting.md", cause)
		}
	}
}
