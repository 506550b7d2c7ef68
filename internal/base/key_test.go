package base

import (
	"strings"
	"testing"
)

// TestPrintableKey checks that no object content gets into a message if a flipped bit has made a stored key longer.
func TestPrintableKey(t *testing.T) {
	for key, want := range map[string]string{
		"":                         `""`,
		"ns/name":                  `"ns/name"`,
		"ns/name\x01secret":        `"ns/name"… (14 bytes)`,
		"ns/\xc3\xa9":              `"ns/"… (5 bytes)`,
		strings.Repeat("a", 317):   `"` + strings.Repeat("a", 317) + `"`,
		strings.Repeat("a", 65000): `"` + strings.Repeat("a", 317) + `"… (65000 bytes)`,
	} {
		if got := PrintableKey(key); got != want {
			t.Errorf("Key(%.20q) = %s, want %s", key, got, want)
		}
	}
}
