package store_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/larder-dev/larder/store"
	"github.com/larder-dev/larder/store/seal"
)

// aliased is a KeyProvider like a KMS that accepts a key's alias and returns the id of the key behind the alias.
type aliased struct{ *seal.Keys }

func (aliased) CurrentKey(context.Context) (string, error) { return "alias/larder", nil }

// TestAliasedKeys checks that a KeyProvider with unstable key ids costs a data key for each open, until Rekey.
func TestAliasedKeys(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store")
	keys, err := seal.ParseKeys([]byte(mustKey(t, "")))
	if err != nil {
		t.Fatal(err)
	}
	e := sealing(t, mustKey(t, ""))
	e.Keys = aliased{keys}
	for n := 1; n <= 3; n++ {
		writeSealed(t, path, 10*n, e)
		s := mustOpen(t, path, store.Options{ReadOnly: true, Encryption: e})
		wantDataKeys(t, s, n)
		mustClose(t, s)
	}
	if _, err := store.Rekey(t.Context(), path, store.Options{Encryption: e, Logger: &quiet}); err != nil {
		t.Fatal(err)
	}
	s := mustOpen(t, path, store.Options{ReadOnly: true, Encryption: e})
	wantDataKeys(t, s, 1)
	mustClose(t, s)
}
