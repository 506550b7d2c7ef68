package yamldir

import (
	"errors"
	"io/fs"
	"maps"
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

// Whatever objects are called, no two have one file, also where case does not count, and every file is legal and within
// the directory.
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

// allPods covers what most tests have.
var allPods = []Scope{{Resource: "pods"}}

// export is one export of the files, which covers all pods.
func export(t *testing.T, dir string, files map[string]string) (Counts, error) {
	t.Helper()
	return exportOf(t, dir, allPods, files)
}

// exportOf is one export of the files of some scopes. Their selection is the first one's.
func exportOf(t *testing.T, dir string, covered []Scope, files map[string]string) (Counts, error) {
	t.Helper()
	d, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for _, s := range covered {
		d.Cover(s)
	}
	must(t, d.Make())
	for name, text := range files {
		if err := d.Put(name, covered[0].Selection, []byte(text)); err != nil {
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
	if now, err := os.Stat(filepath.Join(dir, "a/pods/x.yaml")); err != nil || !now.ModTime().Equal(old.ModTime()) ||
		!os.SameFile(old, now) {
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
	if _, err := export(t, dir, map[string]string{"a/pods/x.yaml": "1"}); !errors.Is(err, ErrForeign) ||
		!strings.Contains(err.Error(), "a/pods/x.yaml") {
		t.Errorf("got %v", err)
	}
	if _, err := export(t, dir, map[string]string{"a/pods/x.yaml": "mine"}); err != nil {
		t.Errorf("the same file: %v", err)
	}
}

// The rehearsal finds a file that is in the way before anything is written, and none where a file of the same kind is
// in nobody's way.
func TestForeignFilesAreRehearsed(t *testing.T) {
	dir := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(dir, "a/pods"), 0o700))
	must(t, os.WriteFile(filepath.Join(dir, "a/pods/x.yaml"), []byte("mine"), 0o600))
	d, err := Open(dir)
	must(t, err)
	defer d.Close()
	r := d.Rehearse()
	if r == nil || !r.Has("a/pods/y.yaml") || r.Has("a/pods/x.yaml") {
		t.Fatalf("%+v", r)
	}
	if err := r.Put("a/pods/x.yaml", "", []byte("mine")); err != nil {
		t.Errorf("the same: %v", err)
	}
	if err := r.Put("a/pods/x.yaml", "", []byte("1")); !errors.Is(err, ErrForeign) {
		t.Errorf("got %v", err)
	}
	if files := r.Conflicts(); len(files) > 0 {
		t.Errorf("%v", files)
	}
}

// A list that somebody has changed does not lead to files outside of the directory, and neither do links.
func TestNothingOutsideIsTouched(t *testing.T) {
	base := t.TempDir()
	dir, outside := filepath.Join(base, "dir"), filepath.Join(base, "outside")
	must(t, os.MkdirAll(dir, 0o700))
	must(t, os.MkdirAll(outside, 0o700))
	must(t, os.WriteFile(filepath.Join(outside, "x.yaml"), []byte("mine"), 0o600))
	must(t, os.WriteFile(filepath.Join(dir, Marker),
		[]byte("../outside/x.yaml\nlink/x.yaml\n"+filepath.Join(outside, "x.yaml")+"\n"), 0o600))
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
	must(t, d.Make())
	must(t, d.Put("a/pods/y.yaml", "", []byte("2")))
	must(t, d.Put("a/pods/x.yaml", "", []byte("one")))
	must(t, os.WriteFile(filepath.Join(dir, temporary), []byte("ha"), 0o600)) // and half of another
	must(t, d.Close())
	if n, err := export(t, dir, map[string]string{"a/pods/z.yaml": "3"}); err != nil ||
		n != (Counts{Written: 1, Removed: 2}) {
		t.Errorf("%+v, %v", n, err)
	}
	if d := cmp.Diff(map[string]string{"a/pods/z.yaml": "3"}, contents(t, dir)); d != "" {
		t.Error(d)
	}
}

func second(_ Counts, err error) error { return err }

// What no scope covers is not removed: other kinds, other namespaces, what a selection may have left out, and what is
// kept.
func TestOnlyWhatIsCoveredIsRemoved(t *testing.T) {
	all := map[string]string{
		"a/pods/x.yaml": "1", "a/pods/y.yaml": "2", "b/pods/x.yaml": "3", "_cluster/pods/x.yaml": "4",
		"a/configmaps/x.yaml": "5",
	}
	for _, tc := range []struct {
		name    string
		covered []Scope
		gone    []string
		left    int
	}{
		{"nothing", []Scope{{Resource: "nodes"}}, nil, 4},
		{"a kind", allPods, []string{"a/pods/y.yaml", "b/pods/x.yaml", "_cluster/pods/x.yaml"}, 1},
		{"a namespace", []Scope{{Resource: "pods", Namespaces: []string{"a"}}}, []string{"a/pods/y.yaml"}, 3},
		{"two", []Scope{{Resource: "pods", Namespaces: []string{"b"}}, {Resource: "configmaps"}},
			[]string{"b/pods/x.yaml", "a/configmaps/x.yaml"}, 2},
		{"a selection", []Scope{{Resource: "pods", Selection: "-l app=web"}}, nil, 4},
	} {
		dir := t.TempDir()
		must(t, second(exportOf(t, dir, allPods, all)))
		want := Counts{Unchanged: 1, Removed: len(tc.gone), Left: tc.left}
		if n, err := exportOf(t, dir, tc.covered, map[string]string{"a/pods/x.yaml": "1"}); err != nil || n != want {
			t.Errorf("%s: %+v, %v, want %+v", tc.name, n, err, want)
		}
		expected := maps.Clone(all)
		for _, file := range tc.gone {
			delete(expected, file)
		}
		if d := cmp.Diff(expected, contents(t, dir)); d != "" {
			t.Errorf("%s: %s", tc.name, d)
		}
		if n, err := exportOf(t, dir, append(allPods, Scope{Resource: "configmaps"}), nil); err != nil ||
			n.Removed != len(expected) {
			t.Errorf("%s: what was left is not known any more: %+v, %v", tc.name, n, err)
		}
	}
}

// What was written for a selection is removed by the same one, and by an export of all, but by no other selection.
func TestSelectionRemovesItsOwn(t *testing.T) {
	dir := t.TempDir()
	web, db := []Scope{{Resource: "pods", Selection: "-l app=web"}}, []Scope{{Resource: "pods", Selection: "-l app=db"}}
	must(t,
		second(exportOf(t, dir, web, map[string]string{"a/pods/w.yaml": "1", "a/pods/v.yaml": "1", "a/pods/u.yaml": "1"})))
	if n, err := exportOf(t, dir, db, map[string]string{"a/pods/d.yaml": "1"}); err != nil ||
		n != (Counts{Written: 1, Left: 3}) {
		t.Errorf("%+v, %v", n, err)
	}
	if n, err := exportOf(t, dir, web, map[string]string{"a/pods/w.yaml": "1", "a/pods/v.yaml": "1"}); err != nil ||
		n != (Counts{Unchanged: 2, Removed: 1, Left: 1}) {
		t.Errorf("%+v, %v", n, err)
	}
	if n, err := export(t, dir, map[string]string{"a/pods/w.yaml": "1"}); err != nil ||
		n != (Counts{Unchanged: 1, Removed: 2}) {
		t.Errorf("%+v, %v", n, err)
	}
	// w was exported with all: that it does not match any more does not mean that it is gone.
	if n, err := exportOf(t, dir, web, map[string]string{"a/pods/w.yaml": "1"}); err != nil ||
		n != (Counts{Unchanged: 1}) {
		t.Errorf("%+v, %v", n, err)
	}
	if n, err := exportOf(t, dir, web, nil); err != nil || n != (Counts{Left: 1}) {
		t.Errorf("%+v, %v", n, err)
	}
}

// A file that was edited is neither replaced nor removed, and a rehearsal finds it.
func TestEditedFiles(t *testing.T) {
	dir := t.TempDir()
	must(t,
		second(export(t, dir, map[string]string{"a/pods/x.yaml": "1\n", "a/pods/y.yaml": "2\n", "a/pods/z.yaml": "3\n",
			"b/pods/x.yaml": "4\n"})))
	rehearse := func(covered []Scope, files map[string]string) []string {
		t.Helper()
		d, err := Open(dir)
		must(t, err)
		defer d.Close()
		r := d.Rehearse()
		if r == nil {
			return nil
		}
		for _, s := range covered {
			r.Cover(s)
		}
		for name, text := range files {
			if !r.Has(name) {
				must(t, r.Put(name, "", []byte(text)))
			}
		}
		return r.Conflicts()
	}
	same := map[string]string{"a/pods/x.yaml": "1\n", "a/pods/y.yaml": "2\n"}
	if got := rehearse(allPods, same); got != nil {
		t.Errorf("nothing was edited, and %v", got)
	}
	must(t, os.WriteFile(filepath.Join(dir, "a/pods/z.yaml"), []byte("3\r\n"), 0o600)) // by git
	must(t, os.WriteFile(filepath.Join(dir, "a/pods/x.yaml"), []byte("mine\n"), 0o600))
	must(t, os.WriteFile(filepath.Join(dir, "b/pods/x.yaml"), []byte("mine\n"), 0o600))
	if d := cmp.Diff([]string{"a/pods/x.yaml", "b/pods/x.yaml"}, rehearse(allPods, same)); d != "" {
		t.Error(d)
	}
	before := contents(t, dir)
	for _, ns := range []string{"a", "b"} {
		covered := []Scope{{Resource: "pods", Namespaces: []string{ns}}}
		if d := cmp.Diff([]string{ns + "/pods/x.yaml"},
			rehearse(covered, map[string]string{"a/pods/y.yaml": "2\n"})); d != "" {
			t.Errorf("only %s: %s", ns, d)
		}
	}
	if d := cmp.Diff(before, contents(t, dir)); d != "" {
		t.Errorf("a rehearsal has changed something: %s", d)
	}
	if _, err := export(t, dir, same); !errors.Is(err, ErrEdited) || !strings.Contains(err.Error(), "pods/x.yaml") {
		t.Errorf("got %v", err)
	}
	if _, err := export(t, dir, map[string]string{"a/pods/x.yaml": "mine\n"}); !errors.Is(err, ErrEdited) ||
		!strings.Contains(err.Error(), "b/pods/x.yaml") {
		t.Errorf("one that is gone: got %v", err)
	}
	for name, text := range map[string]string{"a/pods/x.yaml": "mine\n", "b/pods/x.yaml": "mine\n"} {
		if got := contents(t, dir)[name]; got != text {
			t.Errorf("%s is %q", name, got)
		}
	}
	// What is edited to what would be written is no conflict, and what was removed is written again.
	must(t, os.Remove(filepath.Join(dir, "b/pods/x.yaml")))
	now := map[string]string{"a/pods/x.yaml": "mine\n", "b/pods/x.yaml": "4\n"}
	if got := rehearse(allPods, now); len(got) > 0 {
		t.Errorf("conflicts: %v", got)
	}
	must(t, second(export(t, dir, now)))
	if d := cmp.Diff(now, contents(t, dir)); d != "" {
		t.Error(d)
	}
}

// A line without a digest says nothing of its file, which is as one that no export has written.
func TestListWithoutDigests(t *testing.T) {
	dir := t.TempDir()
	must(t, second(export(t, dir, map[string]string{"a/pods/x.yaml": "1", "a/pods/y.yaml": "2"})))
	must(t, os.WriteFile(filepath.Join(dir, Marker), []byte("# Files\na/pods/x.yaml\na/pods/y.yaml\n"), 0o600))
	must(t, os.WriteFile(filepath.Join(dir, "a/pods/x.yaml"), []byte("mine"), 0o600))
	if _, err := export(t, dir, map[string]string{"a/pods/x.yaml": "1"}); !errors.Is(err, ErrForeign) {
		t.Errorf("got %v", err)
	}
	if got := contents(t, dir); got["a/pods/x.yaml"] != "mine" || got["a/pods/y.yaml"] != "2" {
		t.Errorf("the files are %v", got)
	}
}

// Opening, and giving up, leaves nothing.
func TestNothingIsMadeBeforeMake(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	d, err := Open(dir)
	must(t, err)
	must(t, d.Close())
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}
