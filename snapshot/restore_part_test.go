package snapshot_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/snapshot"
)

// TestRestoreOfAPartIsNotComplete: an informer that syncs from the disk must not take a part of a collection for all of
// it.
func TestRestoreOfAPartIsNotComplete(t *testing.T) {
	dir := t.TempDir()
	s := savedStore(t, filepath.Join(dir, "a.db"))
	whole, part := filepath.Join(dir, "a.larder"), filepath.Join(dir, "b.larder")
	some := snapshot.SelectOptions{Filter: snapshot.Filter{Resources: []string{"pods", "nodes"},
		Namespaces: []string{"ns-1"}}}
	if _, err := snapshot.SaveStore(t.Context(), s, whole, snapshot.SaveOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := snapshot.SaveStore(t.Context(), s, part, snapshot.SaveOptions{SelectOptions: some}); err != nil {
		t.Fatal(err)
	}
	for path, o := range map[string]snapshot.RestoreOptions{whole: {SelectOptions: some}, part: {}} {
		got, restored := mustRestore(t, path, o)
		infos, err := got.Collections(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for i, info := range infos {
			if info.Complete || info.MustRelist == "" || restored.Collections[i].Complete {
				t.Errorf("%s: %+v", path, info)
			}
		}
	}
}

// TestWhatIsSkippedIsMissed: a collection of which objects were skipped is not complete, in a snapshot and in a store.
func TestWhatIsSkippedIsMissed(t *testing.T) {
	dir := t.TempDir()
	c := collectionOf(schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}, "Widget",
		entry.Typed)
	c.Complete, c.ResourceVersion = true, "7"
	src := memorySource{{c, []entry.Entry{{Key: "a/w", UID: "w", ResourceVersion: "5", Encoding: encodingProtobuf,
		Payload: []byte("k8s")}}}}
	skip := snapshot.SelectOptions{Redaction: snapshot.Redaction{Env: []string{"x"}}, SkipUnknown: true}
	write := func(name string, o snapshot.SelectOptions) string {
		path := filepath.Join(dir, name)
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		w := mustWriter(t, f)
		if _, err := w.Copy(t.Context(), src, o); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(w.Close(), f.Close()); err != nil {
			t.Fatal(err)
		}
		return path
	}
	path := filepath.Join(dir, "saved.larder")
	if n, err := snapshot.SaveSource(t.Context(), src, path, snapshot.SaveOptions{SelectOptions: skip}); err != nil ||
		n.Skipped != 1 {
		t.Fatalf("%+v, %v", n, err)
	}
	for _, path := range []string{path, write("skipped.larder", skip)} {
		f := mustOpenFile(t, path, snapshot.OpenOptions{})
		if got := f.Manifest().Collections[0]; got.Complete || !strings.Contains(got.MustRelist, "skipped") {
			t.Errorf("in a snapshot: %+v", got)
		}
	}
	_, restored := mustRestore(t, write("whole.larder", snapshot.SelectOptions{}),
		snapshot.RestoreOptions{SelectOptions: skip})
	if got := restored.Collections[0]; got.Complete || !strings.Contains(got.MustRelist, "skipped") ||
		restored.Skipped != 1 {
		t.Errorf("in a store: %+v", restored)
	}
}
