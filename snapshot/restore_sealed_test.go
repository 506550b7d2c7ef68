package snapshot_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"filippo.io/age"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/snapshot"
	"github.com/larder-dev/larder/store"
)

// TestRestoreSealed checks that collections that the saved store sealed are restored in plain text only on request.
func TestRestoreSealed(t *testing.T) {
	key, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "a.larder")
	s := sealingPods(t, dir)
	pod := savedPod(1, "7")
	pod.Annotations["note"] = secretText
	listInto(t, s, savedPods, entry.ResourceInfo{Kind: "Pod", Namespaced: true}, "800", pod)
	if _, err := snapshot.SaveStore(t.Context(), s, path,
		snapshot.SaveOptions{Recipients: []age.Recipient{key.Recipient()}}); err != nil {
		t.Fatal(err)
	}
	plain, sealed := store.Options{Logger: &quiet}, store.Options{Logger: &quiet, Encryption: mustEncryption(t)}
	for name, tc := range map[string]struct {
		to    store.Options
		asked bool
		want  int
		plain bool
	}{
		"no keys":        {to: plain},
		"no keys, asked": {to: plain, asked: true, want: 1, plain: true},
		"keys":           {to: sealed, want: 1},
	} {
		t.Run(name, func(t *testing.T) {
			o := snapshot.RestoreOptions{Identities: []age.Identity{key}, Secrets: tc.asked,
				Import: store.ImportOptions{Store: tc.to}}
			to := filepath.Join(t.TempDir(), "b.db")
			restored, err := snapshot.Restore(t.Context(), path, to, o)
			if err != nil || restored.Objects != tc.want || len(restored.LeftOut) != 1-tc.want {
				t.Fatalf("%+v, %v", restored, err)
			}
			data, err := os.ReadFile(to)
			if err != nil || bytes.Contains(data, []byte(secretText)) != tc.plain {
				t.Errorf("in plain text: %t, %v", !tc.plain, err)
			}
		})
	}
}
