package yamldir

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestPath(t *testing.T) {
	for _, tc := range []struct{ namespace, resource, name, want string }{
		{"web", "deployments.apps", "shop", "web/deployments.apps/shop.yaml"},
		{"", "nodes", "n-1.example.com", "_cluster/nodes/n-1.example.com.yaml"},
		{"", "clusterroles.rbac.authorization.k8s.io", "system:controller:Job", "_cluster/clusterroles.rbac.authorization.k8s.io/system%3Acontroller%3A%4Aob.yaml"},
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

// Whatever objects are called, no two have one file, also where case does not count, and every file is legal and within the directory.
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
		if len(base) > 143 || strings.ContainsAny(base, "<>:\"/\\|?*\x00\n") || !filepath.IsLocal(pa) || isDevice(strings.TrimSuffix(base, ".yaml")) {
			t.Fatalf("%q is not legal", pa)
		}
	})
}

// export is one export of the files.
func export(t *testing.T, dir string, files map[string]string) (Counts, error) {
	t.Helper()
	d, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for name, text := range files {
		if err := d.Put(name, []byte(text)); err != nil {
			return Counts{}, err
		}
	}
	return d.Finish()
}

// contents is every file under dir but the marker.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || e.Name() == Marker {
			return err
		}
		text, err := os.ReadFile(p)
		rel, _ := filepath.Rel(dir, p)
		all[filepath.ToSlash(rel)] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestExportAgain(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "dir")
	first := map[string]string{"a/pods/x.yaml": "1", "a/pods/y.yaml": "2", "b/pods/z.yaml": "3"}
	if n, err := export(t, dir, first); err != nil || n != (Counts{Written: 3}) {
		t.Fatalf("%+v, %v", n, err)
	}
	must(t, os.WriteFile(filepath.Join(dir, "README.md"), []byte("mine"), 0o600))
	must(t, os.MkdirAll(filepath.Join(dir, "c"), 0o700))
	must(t, os.WriteFile(filepath.Join(dir, "a/pods/mine.yaml"), []byte("mine"), 0o600))
	old, err := os.Stat(filepath.Join(dir, "a/pods/x.yaml"))
	must(t, err)
	second := map[string]string{"a/pods/x.yaml": "1", "a/pods/y.yaml": "two", "d/pods/z.yaml": "3"}
	if n, err := export(t, dir, second); err != nil || n != (Counts{Written: 2, Unchanged: 1, Removed: 1}) {
		t.Fatalf("%+v, %v", n, err)
	}
	second["README.md"], second["a/pods/mine.yaml"] = "mine", "mine"
	if d := cmp.Diff(second, contents(t, dir)); d != "" {
		t.Error(d)
	}
	if _, err := os.Stat(filepath.Join(dir, "b")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an empty directory is left: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "c")); err != nil {
		t.Errorf("a directory of somebody else is gone: %v", err)
	}
	if now, err := os.Stat(filepath.Join(dir, "a/pods/x.yaml")); err != nil || !now.ModTime().Equal(old.ModTime()) || !os.SameFile(old, now) {
		t.Errorf("a file that has not changed was written: %v", err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// What no export has written is neither replaced nor removed.
func TestForeignFiles(t *testing.T) {
	dir := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(dir, "a/pods"), 0o700))
	must(t, os.WriteFile(filepath.Join(dir, "a/pods/x.yaml"), []byte("mine"), 0o600))
	if _, err := export(t, dir, map[string]string{"a/pods/x.yaml": "1"}); !errors.Is(err, ErrForeign) || !strings.Contains(err.Error(), "a/pods/x.yaml") {
		t.Errorf("got %v", err)
	}
	if _, err := export(t, dir, map[string]string{"a/pods/x.yaml": "mine"}); err != nil {
		t.Errorf("the same file: %v", err)
	}
}

// A list that somebody has changed does not lead to files outside of the directory, and neither do links.
func TestNothingOutsideIsTouched(t *testing.T) {
	base := t.TempDir()
	dir, outside := filepath.Join(base, "dir"), filepath.Join(base, "outside")
	must(t, os.MkdirAll(dir, 0o700))
	must(t, os.MkdirAll(outside, 0o700))
	must(t, os.WriteFile(filepath.Join(outside, "x.yaml"), []byte("mine"), 0o600))
	must(t, os.WriteFile(filepath.Join(dir, Marker), []byte("../outside/x.yaml\nlink/x.yaml\n"+filepath.Join(outside, "x.yaml")+"\n"), 0o600))
	must(t, os.Symlink(outside, filepath.Join(dir, "link")))
	if _, err := export(t, dir, map[string]string{"link/pods/y.yaml": "1"}); err == nil {
		t.Error("a file was written through a link that leads out")
	}
	_, _ = export(t, dir, map[string]string{"a/pods/y.yaml": "1"})
	if d := cmp.Diff(map[string]string{"x.yaml": "mine"}, contents(t, outside)); d != "" {
		t.Error(d)
	}
}

// An export that was killed leaves what the next one takes for its own.
func TestKilledExport(t *testing.T) {
	dir := t.TempDir()
	must(t, second(export(t, dir, map[string]string{"a/pods/x.yaml": "1"})))
	d, err := Open(dir)
	must(t, err)
	must(t, d.Put("a/pods/y.yaml", []byte("2")))
	must(t, d.Put("a/pods/x.yaml", []byte("one")))
	must(t, os.WriteFile(filepath.Join(dir, temporary), []byte("ha"), 0o600)) // and half of another
	must(t, d.Close())
	if n, err := export(t, dir, map[string]string{"a/pods/z.yaml": "3"}); err != nil || n != (Counts{Written: 1, Removed: 2}) {
		t.Errorf("%+v, %v", n, err)
	}
	if d := cmp.Diff(map[string]string{"a/pods/z.yaml": "3"}, contents(t, dir)); d != "" {
		t.Error(d)
	}
}

func second(_ Counts, err error) error { return err }
