package snapshot_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"filippo.io/age"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/snapshot"
)

// sealed returns a snapshot of several 64 KiB chunks encrypted by age, its decrypted contents, and the age identity.
func sealed(t *testing.T) (want content, data []byte, identity *age.X25519Identity) {
	t.Helper()
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	var records []entry.Entry
	for _, key := range []string{"a/1", "a/2", "b/1", "b/2", "c/1"} {
		records = append(records, rec(key, 150<<10))
	}
	want = content{header: snapshot.Header{Larder: "v1"},
		collections: []contentOf{{snapshot.Collection{Identity: identityOf("pods"), Complete: true}, records}}}
	return want, want.bytes(t, snapshot.WriterOptions{Recipients: []age.Recipient{identity.Recipient()}}), identity
}

func TestEncrypted(t *testing.T) {
	want, data, identity := sealed(t)
	other, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	for _, plain := range []string{"uid-a/1", magic, "clusterID", "resource"} {
		if bytes.Contains(data, []byte(plain)) {
			t.Errorf("%q is in the file", plain)
		}
	}
	ids := []age.Identity{other, identity}
	got, m, err := readAll(data, snapshot.OpenOptions{Identities: ids})
	if err != nil || !m.Encrypted {
		t.Fatal(m.Encrypted, err)
	}
	want.check(t, got)
	f, err := snapshot.NewFile(bytes.NewReader(data), int64(len(data)), snapshot.OpenOptions{Identities: ids})
	if err != nil {
		t.Fatal(err)
	}
	if _, ok, err := f.Get(t.Context(), identityOf("pods"), "b/2"); !ok || err != nil {
		t.Error(err)
	}
}

func TestEncryptedWithoutIdentity(t *testing.T) {
	_, data, _ := sealed(t)
	other, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		ids  []age.Identity
		want error
	}{{nil, snapshot.ErrEncrypted}, {[]age.Identity{other}, snapshot.ErrIdentity}} {
		_, err := snapshot.NewFile(bytes.NewReader(data), int64(len(data)), snapshot.OpenOptions{Identities: c.ids})
		if !errors.Is(err, c.want) {
			t.Errorf("%v, want %v", err, c.want)
		}
	}
}

func TestPassphrase(t *testing.T) {
	recipient, err := age.NewScryptRecipient("open sesame")
	if err != nil {
		t.Fatal(err)
	}
	recipient.SetWorkFactor(10) // a low work factor keeps the test fast
	want := small()
	data := want.bytes(t, snapshot.WriterOptions{Recipients: []age.Recipient{recipient}})
	for _, c := range []struct {
		phrase string
		want   error
	}{{"open sesame", nil}, {"open barley", snapshot.ErrIdentity}} {
		id, err := age.NewScryptIdentity(c.phrase)
		if err != nil {
			t.Fatal(err)
		}
		got, _, err := readAll(data, snapshot.OpenOptions{Identities: []age.Identity{id}})
		if !errors.Is(err, c.want) {
			t.Fatalf("%v, want %v", err, c.want)
		}
		if err == nil {
			want.check(t, got)
		}
	}
}

// TestEncryptedAndAltered checks that an altered 64 KiB chunk of an encrypted snapshot costs only the blocks in it.
func TestEncryptedAndAltered(t *testing.T) {
	want, data, identity := sealed(t)
	o := snapshot.OpenOptions{Identities: []age.Identity{identity}}
	altered := bytes.Clone(data)
	altered[len(data)/2] ^= 1
	f, err := snapshot.NewFile(bytes.NewReader(altered), int64(len(data)), o)
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	err = f.Records(t.Context(), identityOf("pods"),
		func(r entry.Entry) error { keys = append(keys, r.Key); return nil })
	var missing *snapshot.MissingError
	if strings.Join(keys, " ") != "a/1 a/2 c/1" || !errors.As(err, &missing) || missing.Objects != 2 {
		t.Errorf("%q, %v", keys, err)
	}
	r, ok, err := f.Get(t.Context(), identityOf("pods"), "a/1")
	if err != nil || !ok || !sameRecord(r, want.collections[0].records[0]) {
		t.Errorf("Get: %v, %v", ok, err)
	}
	if _, err := snapshot.NewFile(bytes.NewReader(data[:len(data)*2/3]), int64(len(data)*2/3), o); !typed(err) {
		t.Errorf("cut short: %v", err)
	}
}

func TestEncryptedDamage(t *testing.T) {
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	ids := []age.Identity{identity}
	want := small()
	whole := want.bytes(t, snapshot.WithBlocks(snapshot.WriterOptions{Recipients: []age.Recipient{identity.Recipient()}},
		100))
	check := func(what string, i int, data []byte) {
		got, _, err := readAll(data, snapshot.OpenOptions{Identities: ids})
		if err == nil || !typed(err) && !errors.Is(err, snapshot.ErrIdentity) || !isPart(got, want) {
			t.Fatalf("%s %d: %v", what, i, err)
		}
	}
	for i := 0; i < len(whole); i += soaked(4, 1) + i/200 {
		check("cut at", i, whole[:i])
		data := bytes.Clone(whole)
		data[i] ^= 4
		check("flipped", i, data)
	}
}

func TestArmorIsNamed(t *testing.T) {
	data := []byte("-----BEGIN AGE ENCRYPTED FILE-----\nYWdl\n")
	if _, err := snapshot.NewFile(bytes.NewReader(data), int64(len(data)), snapshot.OpenOptions{}); !errors.Is(err,
		snapshot.ErrNotSnapshot) || !strings.Contains(err.Error(), "armor") {
		t.Error(err)
	}
}
