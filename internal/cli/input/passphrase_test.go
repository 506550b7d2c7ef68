package input_test

import (
	"bytes"
	"errors"
	"testing"

	"filippo.io/age"

	"github.com/larder-dev/larder/internal/cli/input"
)

// TestPassphraseIsTriedOnce checks that a passphrase is tried once for each file, because every try takes a second of
// CPU time by default.
func TestPassphraseIsTriedOnce(t *testing.T) {
	recipient, err := age.NewScryptRecipient("right")
	if err != nil {
		t.Fatal(err)
	}
	recipient.SetWorkFactor(10)
	key := []byte("0123456789abcdef")
	stanzas, err := recipient.Wrap(key)
	if err != nil {
		t.Fatal(err)
	}
	id := &input.PassphraseIdentity{Ask: func(string) (string, error) { return "right", nil }}
	for range 2 {
		if got, err := id.Unwrap(stanzas); !bytes.Equal(got, key) || err != nil {
			t.Fatalf("%q, %v", got, err)
		}
		id.Fits, id.Ask = "", func(string) (string, error) { return "", errors.New("asked again") }
	}
	stanzas[0].Body[0] ^= 1
	if got, err := id.Unwrap(stanzas); err == nil {
		t.Errorf("another wrapping is taken for the same: %q", got)
	}
}
