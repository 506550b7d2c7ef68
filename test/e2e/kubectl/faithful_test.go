package kubectl

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// odd has JSON values that decoders often lose: unknown fields, integers beyond float64, floats, null, empty values,
// and text with two JSON encodings.
var odd = map[string]any{
	"integer": int64(9007199254740993), "negative": int64(-9223372036854775808), "zero": int64(0),
	"float": 0.1, "large": 1e21, "small": 5e-324, "null": nil, "no": false,
	"emptyMap": map[string]any{}, "emptyList": []any{}, "emptyText": "",
	"deep": map[string]any{"null": nil, "list": []any{nil, int64(1), 1.5, map[string]any{}, []any{}}, "unknown/field": "x"},
	"text": "<a> & \u2028 \u0001 \U0001F600 \"quoted\" \\", "quoted\"key": "v", "": "no name",
}

// createOdd creates a custom object with the values of odd. Later steps do not change that object.
func (c *creator) createOdd() {
	c.t.Helper()
	c.create(&unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Gadget",
		"metadata": map[string]any{"name": "odd", "namespace": "shop"}, "spec": odd,
	}})
}

// testFaithful checks that a custom object with unusual values and a pod print the same from four sources: the server,
// the store, a snapshot of the store, and a store restored from that snapshot. An exported manifest must create an
// equal object.
func testFaithful(t *testing.T, path string) {
	snapshot, restored := filepath.Join(t.TempDir(), "s.larder"), filepath.Join(t.TempDir(), "restored.db")
	output(t, larder, "snapshot", "save", snapshot, "gadgets", "pods", "--from", path)
	output(t, larder, "snapshot", "restore", snapshot, "--store", restored)
	for _, object := range []string{"gadget/odd", "pod/running"} {
		args := []string{"get", object, "-n", "shop", "-o", "json", "--show-managed-fields"}
		want := output(t, kubectl, append(args, "--kubeconfig", kubeconfig, "--cache-dir", cacheDir)...)
		if object == "gadget/odd" && !strings.Contains(want, "9007199254740993") {
			t.Fatalf("the server has not kept the integer:\n%s", want)
		}
		for _, from := range []string{path, snapshot, restored} {
			if got := output(t, larder, append(args, "--from", from)...); got != want {
				t.Errorf("%s of %s (- kubectl, + larder):\n%s", object, from, cmp.Diff(want, got))
			}
		}
		resource, name, _ := strings.Cut(object, "/")
		lines := output(t, larder, "snapshot", "export", "-", resource, "-n", "shop", "--field-selector",
			"metadata.name="+name, "--from", restored)
		var escaped bytes.Buffer // kubectl escapes < > & in JSON, larder export does not
		json.HTMLEscape(&escaped, []byte(lines))
		if got, line := strings.TrimSpace(escaped.String()), compact(t, want); got != line {
			t.Errorf("%s exported (- kubectl, + larder):\n%s", object, cmp.Diff(line, got))
		}
	}
	testRecreated(t, restored)
}

// testRecreated creates the object with unusual values from its exported manifest, under another name, and compares the
// two objects.
func testRecreated(t *testing.T, path string) {
	dir := filepath.Join(t.TempDir(), "manifests")
	output(t, larder, "snapshot", "export", dir, "gadgets", "-n", "shop", "--field-selector", "metadata.name=odd",
		"--from", path)
	manifest := filepath.Join(dir, "shop", "gadgets.example.com", "odd.yaml")
	specOf := func(args ...string) string {
		t.Helper()
		args = append(args, "-o", "json", "--kubeconfig", kubeconfig, "--cache-dir", cacheDir)
		var u struct{ Spec json.RawMessage }
		if err := json.Unmarshal([]byte(output(t, kubectl, args...)), &u); err != nil {
			t.Fatal(err)
		}
		return compact(t, string(u.Spec))
	}
	want := specOf("get", "gadget/odd", "-n", "shop")
	if got := specOf("create", "--dry-run=server", "-f", renamed(t, manifest)); got != want {
		t.Errorf("created from what was exported (- before, + after):\n%s", cmp.Diff(want, got))
	}
}

func renamed(t *testing.T, manifest string) string {
	t.Helper()
	text, err := os.ReadFile(manifest)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "renamed.yaml")
	text = bytes.Replace(text, []byte("name: odd"), []byte("name: odd-again"), 1)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func compact(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	if err := json.Compact(&b, []byte(text)); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func output(t *testing.T, program string, args ...string) string {
	t.Helper()
	var out, stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Stdout, cmd.Stderr = &out, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s %q: %v\n%s", filepath.Base(program), args, err, stderr.String())
	}
	return out.String()
}
