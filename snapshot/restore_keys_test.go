package snapshot_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"aead.dev/minisign"

	"github.com/larder-dev/larder/internal/facts"
	"github.com/larder-dev/larder/snapshot"
	"github.com/larder-dev/larder/store"
)

// TestRestoreOfKeys checks that the keys of service accounts are restored only if a key of the caller has signed the
// snapshot (issue 37).
func TestRestoreOfKeys(t *testing.T) {
	public, private := signingKey(t)
	other, _ := signingKey(t)
	text := []byte(`{"issuer":"https://cluster.example","jwks":{"keys":[]}}`)
	data := content{header: snapshot.Header{ClusterID: "here", TakenAt: time.Unix(1, 0).UTC()},
		documents: []documentOf{{"server-version", []byte("v1.36.3")}, {"service-account-keys", text}},
	}.bytes(t, snapshot.WriterOptions{Key: private})
	for name, tt := range map[string]struct {
		signedBy []minisign.PublicKey
		keys     bool
		want     error
	}{
		"no key":      {},
		"its key":     {signedBy: []minisign.PublicKey{other, public}, keys: true},
		"another key": {signedBy: []minisign.PublicKey{other}, want: snapshot.ErrSignature},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path, to := filepath.Join(dir, "s.larder"), filepath.Join(dir, "s.db")
			fine(t)(nil, os.WriteFile(path, data, 0o600))
			restored, err := snapshot.Restore(t.Context(), path, to, snapshot.RestoreOptions{SignedBy: tt.signedBy})
			if !errors.Is(err, tt.want) {
				t.Fatalf("%v, want %v", err, tt.want)
			}
			if tt.want != nil {
				if _, err := os.Stat(to); !errors.Is(err, os.ErrNotExist) {
					t.Errorf("a store was made: %v", err)
				}
				return
			}
			if len(restored.LeftOut) == 0 != tt.keys || len(restored.LeftOutCollections()) > 0 {
				t.Errorf("left out %q", restored.LeftOut)
			}
			st := value(store.Open(to, store.Options{}))(t)
			defer func() { fine(t)(nil, st.Close()) }()
			if keys := value(facts.ReadKeys(t.Context(), st))(t); (keys != nil) != tt.keys {
				t.Errorf("keys %+v", keys)
			}
			if version := value(facts.ReadVersion(t.Context(), st))(t); version == nil {
				t.Error("the version is not restored")
			}
		})
	}
}
