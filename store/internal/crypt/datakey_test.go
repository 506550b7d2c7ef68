package crypt

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/larder-dev/larder/store/internal/format"
	"github.com/larder-dev/larder/store/seal"
)

func mustDataKey(t testing.TB, id uint64) *dataKey {
	t.Helper()
	k, err := newDataKey(id, bytes.Repeat([]byte{byte(id)}, seal.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestNewDataKeyOverwritesRawKey(t *testing.T) {
	raw := bytes.Repeat([]byte{3}, seal.KeySize)
	if _, err := newDataKey(1, raw); err != nil || !bytes.Equal(raw, make([]byte, seal.KeySize)) {
		t.Errorf("%x, %v", raw, err)
	}
	short := bytes.Repeat([]byte{3}, 16)
	if _, err := newDataKey(1, short); !errors.Is(err, seal.ErrWrongKey) || !bytes.Equal(short, make([]byte, 16)) {
		t.Errorf("%x, %v", short, err)
	}
}

// TestToken checks that only equal values of one index, collection and data key have equal tokens.
func TestToken(t *testing.T) {
	k := mustDataKey(t, 5)
	seen := map[string]string{}
	for _, parts := range [][3]string{
		{"c", "i", ""}, {"c", "i", "v"}, {"c", "i", "v2"}, {"c", "iv", ""}, {"c", "j", "v"}, {"d", "i", "v"}, {"ci", "", "v"},
		{"", "ci", "v"},
		{"c", "i", strings.Repeat("long", 10_000)},
	} {
		token := k.token(parts[0], parts[1], parts[2])
		if token != k.token(parts[0], parts[1], parts[2]) {
			t.Errorf("%.20q has two tokens", parts)
		}
		if other, taken := seen[token[8:40]]; taken {
			t.Errorf("%.20q has the hash of %s", parts, other)
		}
		seen[token[8:40]] = strings.Join(parts[:2], "/")
		if value, err := k.value(parts[0], parts[1], token); value != parts[2] || err != nil {
			t.Errorf("%.20q: %.20q, %v", parts, value, err)
		}
		if id, ok := tokenKey(token); id != 5 || !ok {
			t.Errorf("key %d, %v", id, ok)
		}
		if _, err := k.value(parts[0]+"x", parts[1], token); !errors.Is(err, format.ErrNotSealed) {
			t.Errorf("in another collection: %v", err)
		}
		if _, err := k.value(parts[0], parts[1]+"x", token); !errors.Is(err, format.ErrNotSealed) {
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
		if v, err := k.value("c", "i", string(bad)); !errors.Is(err, format.ErrNotSealed) {
			t.Errorf("byte %d changed: %q, %v", i, v, err)
		}
		if _, err := k.value("c", "i", token[:i]); !errors.Is(err, format.ErrNotSealed) {
			t.Errorf("cut after %d bytes: %v", i, err)
		}
	}
}
