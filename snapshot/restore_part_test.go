package snapshot_test

import (
	"path/filepath"
	"testing"

	"github.com/larder-dev/larder/snapshot"
)

// TestRestoreOfAPartIsNotComplete matters because an informer with SyncPolicy Disk would serve the part as the whole.
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
	for _, path := range []string{mustPart(t, whole, some), part} {
		got, restored := mustRestore(t, path, snapshot.RestoreOptions{})
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
