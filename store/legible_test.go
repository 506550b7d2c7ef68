package store

import (
	"errors"
	"strings"
	"testing"

	"github.com/larder-dev/larder/entry"
)

// TestLegible: a key that a flipped bit has made long does not bring content into a message.
func TestLegible(t *testing.T) {
	for key, want := range map[string]string{
		"":                         `""`,
		"ns/name":                  `"ns/name"`,
		"ns/name\x01secret":        `"ns/name"… (14 bytes)`,
		"ns/\xc3\xa9":              `"ns/"… (5 bytes)`,
		strings.Repeat("a", 317):   `"` + strings.Repeat("a", 317) + `"`,
		strings.Repeat("a", 65000): `"` + strings.Repeat("a", 317) + `"… (65000 bytes)`,
	} {
		if got := legible(key); got != want {
			t.Errorf("legible(%.20q) = %s, want %s", key, got, want)
		}
	}
	_, _, err := parseRecord("c", "ns/name\x01\x02secret", []byte("too short"))
	if !errors.Is(err, entry.ErrDamaged) || strings.Contains(err.Error(), "secret") {
		t.Errorf("%v", err)
	}
}
