package serving

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"aead.dev/minisign"
	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/go-logr/logr"

	"github.com/larder-dev/larder/internal/facts"
	"github.com/larder-dev/larder/internal/source"
	"github.com/larder-dev/larder/snapshot"
	"github.com/larder-dev/larder/store"
)

// signer is a key with which a fake cluster signs the tokens of its service accounts.
type signer struct{ key *ecdsa.PrivateKey }

func newSigner(t *testing.T) signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return signer{key}
}

const issuer = "https://cluster.example"

func (s signer) keys(t *testing.T) []byte {
	t.Helper()
	set, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: s.key.Public(), KeyID: "k", Algorithm: "ES256"}}})
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(facts.Keys{Issuer: issuer, JWKS: set})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func (s signer) token(t *testing.T) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: s.key, KeyID: "k"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	token, err := jwt.Signed(signer).Claims(map[string]any{
		"iss": issuer, "aud": []string{issuer}, "sub": "system:serviceaccount:monitoring:agent",
		"exp": now.Add(time.Hour).Unix(), "nbf": now.Unix(), "iat": now.Unix(),
		"kubernetes.io": map[string]any{"namespace": "monitoring", "serviceaccount": map[string]any{"name": "agent", "uid": "u"}},
	}).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// TestKeysAreReloaded checks that tokens are verified with the currently stored keys: there are none when a first sync
// begins to serve, and a cluster may rotate them.
func TestKeysAreReloaded(t *testing.T) {
	const document = "service-account-keys"
	stored := facts.Memory{}
	accounts := &storedAccounts{facts: stored, logger: logr.Discard()}
	knows := func(s signer) bool {
		t.Helper()
		r := httptest.NewRequest("GET", "/api/v1/pods", nil)
		r.Header.Set("Authorization", "Bearer "+s.token(t))
		user, ok, _ := accounts.Authenticate(r)
		if ok && user.Username != "system:serviceaccount:monitoring:agent" {
			t.Errorf("the user is %+v", user)
		}
		return ok
	}
	first, second := newSigner(t), newSigner(t)
	if knows(first) {
		t.Error("a token is known without keys")
	}
	stored[document] = first.keys(t)
	if !knows(first) || knows(second) {
		t.Error("the key that has come does not decide")
	}
	stored[document] = second.keys(t)
	if knows(first) || !knows(second) {
		t.Error("the key that has replaced it does not decide")
	}
	stored[document] = []byte("{")
	if !knows(second) {
		t.Error("a document that cannot be read takes the key away")
	}
	delete(stored, document)
	if knows(second) {
		t.Error("a token is known without keys")
	}
}

// TestKeysOfSnapshot checks that larder serve verifies tokens of service accounts with the keys in a snapshot only if
// it has verified the snapshot's signature. The author of an unsigned snapshot could issue tokens (issue 37).
func TestKeysOfSnapshot(t *testing.T) {
	cluster := newSigner(t)
	public, private, err := minisign.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	path, saved := filepath.Join(dir, "s.db"), filepath.Join(dir, "saved.larder")
	quiet := logr.Discard()
	fill(t, path, store.Options{Logger: &quiet})
	st, err := store.Open(path, store.Options{Logger: &quiet})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = st.Close() }()
	if err := st.PutDocument(t.Context(), "service-account-keys", cluster.keys(t)); err != nil {
		t.Fatal(err)
	}
	if _, err := snapshot.SaveStore(t.Context(), st, saved, snapshot.SaveOptions{SigningKey: &private}); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		by   []minisign.PublicKey
		want int
	}{"not verified": {nil, http.StatusUnauthorized}, "verified": {[]minisign.PublicKey{public}, http.StatusOK}} {
		t.Run(name, func(t *testing.T) {
			src, err := source.Open(t.Context(), saved, source.Options{SignedBy: tt.by})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = src.Close() }()
			s, err := servedOf(t.Context(), src, saved)
			if err != nil {
				t.Fatal(err)
			}
			if code := listen(t, s)(cluster.token(t), "pods"); code != tt.want {
				t.Errorf("a token of the snapshot's key got %d, want %d", code, tt.want)
			}
		})
	}
}
