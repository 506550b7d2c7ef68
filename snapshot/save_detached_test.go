package snapshot

import (
	"bytes"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"filippo.io/age"

	"github.com/larder-dev/larder/store"
)

// TestSaveOfAStoreInMemory: one that waits for its file is saved beside the snapshot, sealed as it is, and to a stream with a clear error.
func TestSaveOfAStoreInMemory(t *testing.T) {
	key, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	at, dir := t.TempDir(), t.TempDir()
	o := store.Options{Logger: &quiet, Encryption: mustEncryption(t), MemoryWhileLocked: true, LockTimeout: -1}
	holder := mustOpen(t, filepath.Join(at, "a.db"))
	s, err := store.Open(holder.Path(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	if s.Detached() == nil {
		t.Fatal("it is not in memory")
	}
	listInto(t, s, savedSecrets, store.ResourceInfo{Kind: "Secret", Namespaced: true}, "800", savedSecret(0), savedSecret(1))
	path := filepath.Join(dir, "a.larder")
	so := SaveOptions{Recipients: []age.Recipient{key.Recipient()}}
	saved, err := SaveStore(t.Context(), s, path, so)
	if err != nil || saved.Objects != 2 {
		t.Fatalf("%+v, %v", saved, err)
	}
	wantSame(t, StoreSource(s), mustOpenFile(t, path, OpenOptions{Identities: []age.Identity{key}}))
	_, err = SaveStoreTo(t.Context(), s, &bytes.Buffer{}, so)
	if !errors.Is(err, store.ErrDetached) || !strings.Contains(err.Error(), "SaveStore") {
		t.Errorf("to a stream: %v", err)
	}
	wantNames(t, dir, "a.larder")
	wantNames(t, at, "a.db")
}
