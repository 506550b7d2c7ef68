package yamldir

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestPath(t *testing.T) {
	for _, tc := range []struct{ namespace, resource, name, want string }{
		{"web", "deployments.apps", "shop", "web/deployments.apps/shop.yaml"},
		{"", "nodes", "n-1.example.com", "_cluster/nodes/n-1.example.com.yaml"},
		{"", "clusterroles.rbac.authorization.k8s.io", "system:controller:Job",
			"_cluster/clusterroles.rbac.authorization.k8s.io/system%3Acontroller%3A%4Aob.yaml"},
		{"con", "pods", "aux.x", "%63on/pods/%61ux.x.yaml"},
		{"com1", "pods", "com10", "%63om1/pods/com10.yaml"},
		{"a", "pods", "..", "a/pods/%2E%2E.yaml"},
		{"a", "pods", "../../x", "a/pods/%2E.%2F..%2Fx.yaml"},
		{"a", "pods", "-rf", "a/pods/%2Drf.yaml"},
		{"a", "pods", "a%2f~", "a/pods/a%252f%7E.yaml"},
	} {
		if got := Path(tc.namespace, tc.resource, tc.name); got != tc.want {
			t.Errorf("got %s, want %s", got, tc.want)
		}
	}
}

// TestPathsDiffer checks for arbitrary names that no two objects have the same file, even on case-insensitive file
// systems, and that every file name is legal and within the directory.
func TestPathsDiffer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.OneOf(
			rapid.StringMatching(`[a-zA-Z0-9%~._:-]{1,8}`),
			rapid.StringMatching(`(con|nul|com1|CON)(\.[a-z])?`),
			rapid.Custom(func(t *rapid.T) string {
				return strings.Repeat("long.", 50) + rapid.StringMatching(`[a-c]{0,2}`).Draw(t, "end")
			}),
			rapid.String().Filter(func(s string) bool { return s != "" }),
		)
		a, b := name.Draw(t, "a"), name.Draw(t, "b")
		pa, pb := Path("n", "pods", a), Path("n", "pods", b)
		if (a == b) != (strings.EqualFold(pa, pb)) {
			t.Fatalf("%q and %q: %s and %s", a, b, pa, pb)
		}
		base := strings.TrimPrefix(pa, "n/pods/")
		if len(base) > 143 || strings.ContainsAny(base, "<>:\"/\\|?*\x00\n") || !filepath.IsLocal(pa) ||
			isDevice(strings.TrimSuffix(base, ".yaml")) {
			t.Fatalf("%q is not legal", pa)
		}
	})
}

func TestPut(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "dir")
	d, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it was made before the first file: %v", err)
	}
	for _, text := range []string{"1", "2"} {
		if err := d.Put("a/pods/x.yaml", []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "a", "pods", "x.yaml")); string(text) != "1" || d.Files != 1 {
		t.Errorf("%q, %v, %d files", text, err, d.Files)
	}
	if _, err := Open(dir); !errors.Is(err, ErrNotEmpty) {
		t.Errorf("it was opened again: %v", err)
	}
}

// TestNothingOutsideIsTouched checks that links and names do not lead out of the directory, and that a .git directory
// is allowed.
func TestNothingOutsideIsTouched(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, ".git"), 0o700); err != nil {
		t.Fatal(err)
	}
	d, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if err := os.Symlink(outside, filepath.Join(dir, "a")); err != nil {
		t.Log(err)
		return
	}
	for _, file := range []string{"a/x.yaml", "../x.yaml"} {
		if err := d.Put(file, []byte("1")); err == nil {
			t.Errorf("%s was written", file)
		}
	}
	if all, err := os.ReadDir(outside); err != nil || len(all) > 0 {
		t.Errorf("%v, %v", all, err)
	}
}
