package store_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/larder-dev/larder/store"
	"github.com/larder-dev/larder/store/seal"
)

// TestKeyFile checks that Rekey uses a key that was added at the top of the key file while the store was open.
func TestKeyFile(t *testing.T) {
	first, second := mustGenerateKey(t), mustGenerateKey(t)
	path := filepath.Join(t.TempDir(), "keys")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := seal.KeysFromFile(path); err == nil {
		t.Error("a file that is not there was taken")
	}
	write(first)
	provider, err := seal.KeysFromFile(path)
	if err != nil {
		t.Fatal(err)
	}
	db := filepath.Join(t.TempDir(), "store")
	s, err := store.Open(db, store.Options{Logger: &quiet, Encryption: &seal.Encryption{Keys: provider}})
	if err != nil {
		t.Fatal(err)
	}
	before, err := s.CurrentKey(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	write(second + first)
	after, err := s.CurrentKey(t.Context())
	if err != nil || after == before {
		t.Errorf("the current key is %q, and was %q before: %v", after, before, err)
	}
	if _, err := s.Rekey(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	write(second)
	s, err = store.Open(db, store.Options{Logger: &quiet, Encryption: &seal.Encryption{Keys: provider}})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if data, _ := os.ReadFile(db); bytes.Contains(data, []byte(second)) {
		t.Error("the key is in the store")
	}
}

func mustGenerateKey(t *testing.T) string {
	t.Helper()
	line, err := seal.GenerateKey("")
	if err != nil {
		t.Fatal(err)
	}
	return line
}
