package snapshot_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"filippo.io/age"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/snapshot"
	"github.com/larder-dev/larder/store"
	"github.com/larder-dev/larder/store/seal"
)

func mustEncryption(t *testing.T) *seal.Encryption {
	t.Helper()
	text, err := seal.GenerateKey("a")
	if err != nil {
		t.Fatal(err)
	}
	keys, err := seal.ParseKeys([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return &seal.Encryption{Keys: keys}
}

// TestSaveAndRestoreSealed moves Secrets by an encrypted snapshot to a store with other keys. No file may have them in
// plain text.
func TestSaveAndRestoreSealed(t *testing.T) {
	key, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	sealed := store.Options{Logger: &quiet, Encryption: mustEncryption(t)}
	s, err := store.Open(filepath.Join(dir, "a.db"), sealed)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	listInto(t, s, savedSecrets, entry.ResourceInfo{Kind: "Secret", Namespaced: true}, "800", savedSecret(0),
		savedSecret(1), savedSecret(2))
	path, to := filepath.Join(dir, "a.larder"), filepath.Join(dir, "b.db")
	if _, err := snapshot.SaveStore(t.Context(), s, path,
		snapshot.SaveOptions{Recipients: []age.Recipient{key.Recipient()}}); err != nil {
		t.Fatal(err)
	}
	other := store.Options{Logger: &quiet, Encryption: mustEncryption(t)}
	ro := snapshot.RestoreOptions{Identities: []age.Identity{key}, Import: store.ImportOptions{Store: other}}
	restored, err := snapshot.Restore(t.Context(), path, to, ro)
	if err != nil || restored.Objects != 3 || len(restored.LeftOut) != 0 {
		t.Fatalf("%+v, %v", restored, err)
	}
	got, err := store.Open(to, other)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = got.Close() }()
	wantSound(t, got)
	wantSame(t, snapshot.StoreSource(s), snapshot.StoreSource(got))
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil || bytes.Contains(data, []byte(secretText)) {
			t.Errorf("%s has a Secret in plain text, %v", e.Name(), err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := saveFile(t, filepath.Join(dir, "a.db"), path, store.Options{},
		snapshot.SaveOptions{Recipients: []age.Recipient{key.Recipient()}}); !errors.Is(err, seal.ErrSealed) {
		t.Errorf("without the keys: %v", err)
	}
}

func sealingPods(t *testing.T, dir string) *store.Store {
	t.Helper()
	e := mustEncryption(t)
	e.Resources = []schema.GroupResource{{Resource: "pods"}}
	s, err := store.Open(filepath.Join(dir, "a.db"), store.Options{Logger: &quiet, Encryption: e})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestSaveSealed(t *testing.T) {
	key, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	s := sealingPods(t, dir)
	listPods(t, s, 3, "5000")
	encrypted, plain := filepath.Join(dir, "a.larder"), filepath.Join(dir, "b.larder")
	if _, err := snapshot.SaveStore(t.Context(), s, encrypted,
		snapshot.SaveOptions{Recipients: []age.Recipient{key.Recipient()}}); err != nil {
		t.Fatal(err)
	}
	from := mustOpenFile(t, encrypted, snapshot.OpenOptions{Identities: []age.Identity{key}})
	for _, asked := range []bool{false, true} {
		saved, err := snapshot.Save(t.Context(), from, plain, snapshot.SaveOptions{Secrets: asked})
		if want := map[bool]int{true: 3}[asked]; err != nil || saved.Objects != want || len(saved.LeftOut) != 1-want/3 {
			t.Errorf("asked for: %v: %+v, %v", asked, saved, err)
		}
	}
}
