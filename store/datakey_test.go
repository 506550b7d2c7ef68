package store

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store/internal/format"
)

func mustDataKey(t testing.TB, id uint64) *dataKey {
	t.Helper()
	k, err := newDataKey(id, bytes.Repeat([]byte{byte(id)}, keySize))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestNewDataKeyOverwritesWhatItIsMadeOf(t *testing.T) {
	raw := bytes.Repeat([]byte{3}, keySize)
	if _, err := newDataKey(1, raw); err != nil || !bytes.Equal(raw, make([]byte, keySize)) {
		t.Errorf("%x, %v", raw, err)
	}
	short := bytes.Repeat([]byte{3}, 16)
	if _, err := newDataKey(1, short); !errors.Is(err, ErrWrongKey) || !bytes.Equal(short, make([]byte, 16)) {
		t.Errorf("%x, %v", short, err)
	}
}

// TestToken: the same value in the same place has the same token, which nobody else has.
func TestToken(t *testing.T) {
	k := mustDataKey(t, 5)
	seen := map[string]string{}
	for _, place := range [][3]string{
		{"c", "i", ""}, {"c", "i", "v"}, {"c", "i", "v2"}, {"c", "iv", ""}, {"c", "j", "v"}, {"d", "i", "v"}, {"ci", "", "v"}, {"", "ci", "v"},
		{"c", "i", strings.Repeat("long", 10_000)},
	} {
		token := k.token(place[0], place[1], place[2])
		if token != k.token(place[0], place[1], place[2]) {
			t.Errorf("%.20q has two tokens", place)
		}
		if other, taken := seen[token[8:40]]; taken {
			t.Errorf("%.20q has the hash of %s", place, other)
		}
		seen[token[8:40]] = strings.Join(place[:2], "/")
		if value, err := k.value(place[0], place[1], token); value != place[2] || err != nil {
			t.Errorf("%.20q: %.20q, %v", place, value, err)
		}
		if id, ok := tokenKey(token); id != 5 || !ok {
			t.Errorf("key %d, %v", id, ok)
		}
		if _, err := k.value(place[0]+"x", place[1], token); !errors.Is(err, errNotSealed) {
			t.Errorf("in another collection: %v", err)
		}
		if _, err := k.value(place[0], place[1]+"x", token); !errors.Is(err, errNotSealed) {
			t.Errorf("in another index: %v", err)
		}
	}
	token, other := k.token("c", "i", "v"), mustDataKey(t, 6).token("c", "i", "v")
	if token[8:] == other[8:] {
		t.Error("two keys make the same token")
	}
	for i := range token {
		bad := []byte(token)
		bad[i] ^= 0x10
		if v, err := k.value("c", "i", string(bad)); !errors.Is(err, errNotSealed) {
			t.Errorf("byte %d changed: %q, %v", i, v, err)
		}
		if _, err := k.value("c", "i", token[:i]); !errors.Is(err, errNotSealed) {
			t.Errorf("cut after %d bytes: %v", i, err)
		}
	}
}

// TestSealedRecordBelongsWhereItIs: what is sealed opens in its bucket, collection, key and header, and nowhere else.
func TestSealedRecordBelongsWhereItIs(t *testing.T) {
	k := mustDataKey(t, 5)
	ring := &keyring{}
	if err := ring.hold([]*dataKey{k}, k); err != nil {
		t.Fatal(err)
	}
	s := &Store{keys: ring}
	h := format.Header{UID: "u", RV: "7", Seq: 3, Encoding: "msgpack",
		Terms: k.tokens("c", map[string][]string{"color": {"red"}}), Dictionary: 9, Size: 100}
	data := k.appendSealed(nil, format.BucketObjects, "c", "ns/name", h, []byte("the payload"))
	if bytes.Contains(data, []byte("payload")) || bytes.Contains(data, []byte("red")) {
		t.Error("it is legible")
	}
	again := k.appendSealed(nil, format.BucketObjects, "c", "ns/name", h, []byte("the payload"))
	if bytes.Equal(data[len(data)-60:], again[len(again)-60:]) {
		t.Error("two seals of the same are the same")
	}
	open := func(bucket []byte, collection, key string, data []byte) (string, error) {
		h, payload, err := format.ParseRecord(collection, key, resum(collection, key, slices.Clone(data)))
		if err != nil {
			return "", err
		}
		r := reader{store: s, name: collection}
		payload, err = r.opened(bucket, key, h, payload)
		return string(payload), err
	}
	if payload, err := open(format.BucketObjects, "c", "ns/name", data); payload != "the payload" || err != nil {
		t.Fatalf("%q, %v", payload, err)
	}
	for name, at := range map[string]struct {
		bucket          []byte
		collection, key string
	}{"bucket": {format.BucketTombstones, "c", "ns/name"}, "collection": {format.BucketObjects, "d",
		"ns/name"}, "key": {format.BucketObjects, "c", "ns/other"}} {
		if _, err := open(at.bucket, at.collection, at.key, data); !errors.Is(err, entry.ErrDamaged) {
			t.Errorf("in another %s: %v", name, err)
		}
	}
	for i := format.RecordFixed; i < len(data)*8; i++ { // with a checksum that is right
		if i/8 < format.RecordFixed {
			continue
		}
		bad := slices.Clone(data)
		bad[i/8] ^= 1 << (i % 8)
		if _, err := open(format.BucketObjects, "c", "ns/name", bad); !errors.Is(err, entry.ErrDamaged) {
			t.Errorf("bit %d flipped: %v", i, err)
		}
	}
}

// FuzzOpenSealed: what comes from a file is damage, or what was sealed, and never a panic.
func FuzzOpenSealed(f *testing.F) {
	k := mustDataKey(f, 5)
	ring := &keyring{}
	if err := ring.hold([]*dataKey{k}, k); err != nil {
		f.Fatal(err)
	}
	r := &reader{store: &Store{keys: ring}, name: "c"}
	h := format.Header{UID: "u", Terms: k.tokens("c", map[string][]string{"color": {"red", ""}})}
	f.Add(k.appendSealed(nil, format.BucketObjects, "c", "k", h, []byte("payload")))
	f.Add(k.appendSealed(nil, format.BucketObjects, "c", "k", format.Header{}, nil))
	f.Add(someRecord(format.Header{SealedBy: 1 << 61}))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, data := range [][]byte{data, resum("c", "k", data)} {
			h, payload, err := format.ParseRecord("c", "k", data)
			if err != nil || h.SealedBy == 0 {
				continue
			}
			if plain, err := r.opened(format.BucketObjects, "k", h, payload); err == nil && string(plain) != "payload" &&
				len(plain) > 0 || err != nil && !isDamaged(err) {
				t.Fatalf("%q, %v", plain, err)
			}
			if _, err := r.plainTerms("k", h); err != nil && !isDamaged(err) {
				t.Fatal(err)
			}
		}
	})
}
