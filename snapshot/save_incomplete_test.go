package snapshot_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"filippo.io/age"
	bolt "go.etcd.io/bbolt"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/storetest/disk"
	"github.com/larder-dev/larder/snapshot"
	"github.com/larder-dev/larder/store"
	"github.com/larder-dev/larder/store/seal"
)

// loseRecord deletes an object's record directly in the bbolt file, as if a disk had returned an old page.
func loseRecord(t *testing.T, path string, id entry.Identity, key string) {
	t.Helper()
	db, err := bolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bolt.Tx) error {
		b, err := disk.Collection(tx, id.ID())
		if err != nil {
			return err
		}
		return b.Bucket(disk.Objects).Delete([]byte(key))
	})
	if err = errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
}

// TestSaveOfMissingObjects checks that a save fails if a collection has fewer records than its stored count.
func TestSaveOfMissingObjects(t *testing.T) {
	dir := t.TempDir()
	db, path := filepath.Join(dir, "a.db"), filepath.Join(dir, "a.larder")
	s := mustOpen(t, db)
	listPods(t, s, 100, "5000")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	loseRecord(t, db, savedPods, "ns-3/pod-000003")
	for name, o := range map[string]snapshot.SaveOptions{"all": {},
		"some": {SelectOptions: snapshot.SelectOptions{Filter: snapshot.Filter{Namespaces: []string{"ns-1"}}}}} {
		if _, err := saveFile(t, db, path, store.Options{}, o); !errors.Is(err, entry.ErrDamaged) ||
			!strings.Contains(err.Error(), "pods") {
			t.Errorf("%s: %v", name, err)
		}
	}
	s = mustOpen(t, db)
	if _, err := snapshot.SaveStore(t.Context(), s, path, snapshot.SaveOptions{}); !errors.Is(err, entry.ErrDamaged) {
		t.Errorf("hot: %v", err)
	}
}

// TestSaveOfLeftOutObjects checks that a saved collection with left-out objects must be listed: the snapshot does not
// name these objects.
func TestSaveOfLeftOutObjects(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.larder")
	s := mustOpen(t, filepath.Join(dir, "a.db"))
	c := listPods(t, s, 10, "5000")
	for _, leftOut := range []bool{true, false} {
		batch := entry.Batch{ResourceVersion: "6000", Ops: []entry.Op{{Object: savedPod(3, "6000")}}}
		if leftOut {
			refused := entry.ObjectRef{Key: "ns-3/pod-000003", ResourceVersion: "5500"}
			batch.ResourceVersion = "5500"
			batch.Ops[0] = entry.Op{Type: entry.LeaveOut,
				LeftOut: entry.LeftOut{ObjectRef: refused, Reason: entry.LeftOutTransform}}
		}
		if _, err := c.Apply(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
		if _, err := snapshot.SaveStore(t.Context(), s, path, snapshot.SaveOptions{}); err != nil {
			t.Fatal(err)
		}
		_, restored := mustRestore(t, path, snapshot.RestoreOptions{})
		if got := restored.Collections[0]; (got.MustRelist != "") != leftOut {
			t.Errorf("left out %v: restored to be listed for %q", leftOut, got.MustRelist)
		}
	}
}

// TestSaveWithoutTheKeys checks that a save without the store's keys does not leave out sealed records silently.
func TestSaveWithoutTheKeys(t *testing.T) {
	key, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	db, path := filepath.Join(dir, "a.db"), filepath.Join(dir, "a.larder")
	s, err := store.Open(db, store.Options{Logger: &quiet, Encryption: mustEncryption(t)})
	if err != nil {
		t.Fatal(err)
	}
	listInto(t, s, savedSecrets, entry.ResourceInfo{Kind: "Secret", Namespaced: true}, "800", savedSecret(0),
		savedSecret(1))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	o := snapshot.SaveOptions{Recipients: []age.Recipient{key.Recipient()}}
	if saved, err := saveFile(t, db, path, store.Options{}, o); !errors.Is(err, seal.ErrSealed) {
		t.Errorf("%+v, %v", saved, err)
	}
	wantNames(t, dir, "a.db")
}

// TestSaveOfNewlySealed checks that a collection that the options seal is not saved in plain text, even if an older
// program has stored it unsealed.
func TestSaveOfNewlySealed(t *testing.T) {
	dir := t.TempDir()
	db, path := filepath.Join(dir, "a.db"), filepath.Join(dir, "a.larder")
	s := mustOpen(t, db)
	listPods(t, s, 10, "5000")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	e := mustEncryption(t)
	e.Resources = []schema.GroupResource{{Resource: "pods"}}
	saved, err := saveFile(t, db, path, store.Options{Encryption: e}, snapshot.SaveOptions{})
	if err != nil || saved.Objects != 0 || len(saved.LeftOut) != 1 {
		t.Errorf("%+v, %v", saved, err)
	}
}
