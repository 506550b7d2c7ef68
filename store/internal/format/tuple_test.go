package format

import (
	"bytes"
	"cmp"
	"errors"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"
	"pgregory.net/rapid"

	"github.com/larder-dev/larder/entry"
)

// tupleText draws strings with many bytes that have a special meaning in index keys.
func tupleText() *rapid.Generator[string] {
	special := rapid.SampledFrom([]byte{0x00, 0x01, 0x02, 0xff, 'a'})
	return rapid.OneOf(
		rapid.Map(rapid.SliceOfN(special, 0, 8), func(b []byte) string { return string(b) }),
		rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 40), func(b []byte) string { return string(b) }),
		rapid.StringN(0, 20, -1),
	)
}

// longText also draws strings that are too long for the literal form of an index key.
func longText() *rapid.Generator[string] {
	return rapid.OneOf(tupleText(), rapid.Custom(func(t *rapid.T) string {
		unit := rapid.SampledFrom([]string{"x", "\x00", "ab"}).Draw(t, "unit")
		return strings.Repeat(unit, rapid.IntRange(maxLiteralLen/2-4, maxLiteralLen+4).Draw(t, "n"))
	}))
}

func TestIndexKeyKeepsOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v1, k1 := tupleText().Draw(t, "v1"), tupleText().Draw(t, "k1")
		v2, k2 := tupleText().Draw(t, "v2"), tupleText().Draw(t, "k2")
		want := cmp.Or(cmp.Compare(v1, v2), cmp.Compare(k1, k2))
		if got := bytes.Compare(IndexKey(v1, k1), IndexKey(v2, k2)); got != want {
			t.Fatalf("(%q,%q) against (%q,%q): %d, want %d", v1, k1, v2, k2, got, want)
		}
	})
}

func TestIndexEntryRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value, key := longText().Draw(t, "value"), tupleText().Draw(t, "key")
		k, v := IndexEntry(value, key)
		if !bytes.Equal(k, IndexKey(value, key)) {
			t.Fatal("indexEntry and indexKey disagree")
		}
		gotValue, gotKey, err := ParseIndexEntry(k, v)
		if err != nil || gotValue != value || gotKey != key {
			t.Fatalf("got (%q, %q, %v)", gotValue, gotKey, err)
		}
		_, gotKey, hashed, err := parseIndexKey(k)
		if err != nil || gotKey != key || hashed != (literalLen(value) > maxLiteralLen) || hashed != (v != nil) {
			t.Fatalf("parseIndexKey: %q, hashed %v, %v", gotKey, hashed, err)
		}
	})
}

func TestIndexPrefixSelectsOneValue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v1, v2 := longText().Draw(t, "v1"), longText().Draw(t, "v2")
		key := tupleText().Draw(t, "key")
		if got := bytes.HasPrefix(IndexKey(v2, key), IndexPrefix(v1)); got != (v1 == v2) {
			t.Fatalf("entry of %q has the prefix of %q: %v", v2, v1, got)
		}
	})
}

func TestIndexKeyFitsBbolt(t *testing.T) {
	key := strings.Repeat("k", entry.MaxKey)
	for _, value := range []string{
		strings.Repeat("v", maxLiteralLen-3),
		strings.Repeat("v", maxLiteralLen-2),
		strings.Repeat("\x00", maxLiteralLen/2),
		strings.Repeat("v", 1<<20),
	} {
		if n := len(IndexKey(value, key)); n > bolt.MaxKeySize {
			t.Errorf("value of %d bytes: key of %d bytes", len(value), n)
		}
	}
	if n := len(IndexKey(strings.Repeat("v", maxLiteralLen-3), key)); n != bolt.MaxKeySize {
		t.Errorf("the longest literal value leaves %d bytes unused", bolt.MaxKeySize-n)
	}
}

func TestParseIndexEntryRefusesWrongValue(t *testing.T) {
	k, v := IndexEntry(strings.Repeat("v", bolt.MaxKeySize), "ns/name")
	v[7] ^= 1
	if _, _, err := ParseIndexEntry(k, v); !errors.Is(err, entry.ErrDamaged) {
		t.Fatalf("got %v", err)
	}
}

func FuzzParseIndexKey(f *testing.F) {
	f.Add([]byte{})
	f.Add(IndexKey("", ""))
	f.Add(IndexKey("a\x00b", "ns/name"))
	f.Add(IndexKey(strings.Repeat("v", maxLiteralLen), "ns/name"))
	f.Add([]byte{tagLiteral, 'a', escape})
	f.Add([]byte{tagLiteral, escape, 2})
	f.Add([]byte{tagHashed, 1, 2})
	f.Add([]byte{3, 1, 2})
	f.Fuzz(func(t *testing.T, k []byte) {
		value, key, hashed, err := parseIndexKey(k)
		if err != nil {
			if !errors.Is(err, entry.ErrDamaged) {
				t.Fatalf("error %v is not ErrDamaged", err)
			}
			return
		}
		// Every valid index key is the only key for its value and object key.
		if !hashed && literalLen(value) <= maxLiteralLen && !bytes.Equal(IndexKey(value, key), k) {
			t.Fatalf("%q parses, but encodes to %q", k, IndexKey(value, key))
		}
	})
}
