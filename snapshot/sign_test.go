package snapshot_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"aead.dev/minisign"
	"filippo.io/age"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/snapshot"
)

func signingKey(t *testing.T) (minisign.PublicKey, *minisign.PrivateKey) {
	t.Helper()
	public, private, err := minisign.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	return public, &private
}

// TestSigned checks that Open refuses a missing signature, and a signature by another key or of another snapshot.
func TestSigned(t *testing.T) {
	public, private := signingKey(t)
	other, _ := signingKey(t)
	keyID := fmt.Sprintf("%016X", public.ID())
	write := func(what string, o snapshot.WriterOptions) []byte {
		return goldenContentOf(t, what).bytes(t, o)
	}
	signed := write("a", snapshot.WriterOptions{Key: private})
	f := readSpec(signed)
	said := fmt.Sprintf("larder snapshot\ncluster %s\ntaken %s\ndigest sha256:%x\n", f.header["clusterID"],
		f.header["takenAt"], f.digest)
	if !minisign.Verify(public, []byte(said), []byte(f.signature)) {
		t.Fatalf("the signature is not what README.md says:\n%s", f.signature)
	}

	const footer = 64
	unsigned := write("a", snapshot.WriterOptions{})
	with := func(signature string) []byte {
		at := len(unsigned) - footer
		return bytes.Join([][]byte{unsigned[:at], []byte(signature), unsigned[at:]}, nil)
	}
	ids := goldenIdentities(t)
	sealed := write("a", snapshot.WriterOptions{Key: private, Recipients: recipientsOf(t, ids)})
	replaced := write("b", snapshot.WriterOptions{Key: private})
	for name, tc := range map[string]struct {
		data []byte
		keys []minisign.PublicKey
		want error
		says string
	}{
		"signed":                {data: signed, keys: []minisign.PublicKey{public}},
		"one of two keys":       {data: signed, keys: []minisign.PublicKey{other, public}},
		"encrypted":             {data: sealed, keys: []minisign.PublicKey{public}},
		"nobody asks":           {data: signed},
		"its own, put in again": {data: with(f.signature), keys: []minisign.PublicKey{public}},
		"unsigned":              {data: unsigned, keys: []minisign.PublicKey{public}, want: snapshot.ErrUnsigned},
		"another key": {data: signed, keys: []minisign.PublicKey{other}, want: snapshot.ErrSignature,
			says: "is of the key " + keyID},
		"another snapshot's": {data: with(readSpec(replaced).signature), keys: []minisign.PublicKey{public},
			want: snapshot.ErrSignature, says: "of something else"},
		"no signature": {data: with("untrusted comment: x\n"), keys: []minisign.PublicKey{public},
			want: snapshot.ErrSignature, says: "malformed"},
		"too long": {data: with(strings.Repeat("x", 4097)), want: snapshot.ErrDamaged},
	} {
		t.Run(name, func(t *testing.T) {
			f, err := snapshot.NewFile(bytes.NewReader(tc.data), int64(len(tc.data)),
				snapshot.OpenOptions{Identities: ids, SignedBy: tc.keys})
			if tc.want != nil {
				if !errors.Is(err, tc.want) || !strings.Contains(err.Error(), tc.says) {
					t.Fatalf("got %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := f.Manifest().SignatureKey; got != keyID {
				t.Errorf("signed by %q, want %s", got, keyID)
			}
			goldenContentOf(t, "a").check(t, readFile(t, f))
		})
	}
}

func goldenContentOf(t *testing.T, cluster string) content {
	t.Helper()
	c := goldenContent(t)
	c.header.ClusterID = cluster
	return c
}

func recipientsOf(t *testing.T, ids []age.Identity) []age.Recipient {
	t.Helper()
	id, ok := ids[0].(*age.X25519Identity)
	if !ok {
		t.Fatalf("a %T", ids[0])
	}
	return []age.Recipient{id.Recipient()}
}

// TestSavesSign checks that a save signs with SigningKey, and that a part of a signed snapshot is unsigned.
func TestSavesSign(t *testing.T) {
	public, private := signingKey(t)
	c := collectionOf(core("pods"), "Pod", entry.Typed)
	src := content{collections: []contentOf{{c, nil}}}
	path := filepath.Join(t.TempDir(), "a.larder")
	if err := os.WriteFile(path, src.bytes(t, snapshot.WriterOptions{}), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := snapshot.Open(path, snapshot.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	keys := snapshot.OpenOptions{SignedBy: []minisign.PublicKey{public}}
	saved := path + ".signed"
	if _, err := snapshot.Save(t.Context(), f, saved, snapshot.SaveOptions{SigningKey: private}); err != nil {
		t.Fatal(err)
	}
	signed, err := snapshot.Open(saved, keys)
	if err != nil {
		t.Fatal(err)
	}
	defer signed.Close()
	if _, err := snapshot.Save(t.Context(), signed, path+".part", snapshot.SaveOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := snapshot.Open(path+".part", keys); !errors.Is(err, snapshot.ErrUnsigned) {
		t.Errorf("got %v", err)
	}
}
