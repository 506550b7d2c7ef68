package input

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"aead.dev/minisign"
)

// TestKeys checks that a public key is read from the flag or from a file, and that a secret key is rejected without
// being repeated.
func TestKeys(t *testing.T) {
	public, private, err := minisign.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	text, err := private.MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	_, line, _ := strings.Cut(string(text), "\n")
	dir := t.TempDir()
	for name, text := range map[string]string{"sign.pub": public.String() + "\n", "sign.key": string(text) + "\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, value := range []string{public.String(), filepath.Join(dir, "sign.pub")} {
		if keys, err := PublicKeys("seed-key", []string{value}); err != nil || len(keys) != 1 || !keys[0].Equal(public) {
			t.Errorf("%s: %v, %v", value, keys, err)
		}
	}
	for _, value := range []string{line, string(text), filepath.Join(dir, "sign.key"), line[:len(line)-4], "", "nothing"} {
		if _, err := PublicKeys("seed-key", []string{value}); err == nil || strings.Contains(err.Error(), line[:40]) {
			t.Errorf("got %v", err)
		}
	}
	if key, err := SigningKey("sign-key", filepath.Join(dir, "sign.key")); err != nil || !key.Equal(private) {
		t.Errorf("got %v", err)
	}
	if _, err := SigningKey("sign-key", filepath.Join(dir, "sign.pub")); err == nil {
		t.Error("a public key signs nothing")
	}
}
