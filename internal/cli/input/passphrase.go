package input

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"

	"filippo.io/age"

	"github.com/larder-dev/larder/internal/agekeys"
	"github.com/larder-dev/larder/internal/cli/command"
)

// PassphraseVariable is the environment variable with a passphrase for snapshots. Without it the command prompts.
const PassphraseVariable = "LARDER_PASSPHRASE"

var errPassphrase = errors.New("the passphrase")

// PassphraseIdentity decrypts snapshots encrypted with a passphrase. It prompts when the first encrypted snapshot is
// opened.
type PassphraseIdentity struct {
	Ask func(prompt string) (string, error)

	mu sync.Mutex // mu guards the fields below
	// Fits is the last passphrase that has decrypted a file. It is tried before the user is prompted.
	Fits string
	// keys caches the file key of each snapshot, by the scrypt stanza of its age header: each try of a passphrase takes a
	// second of CPU time, and a command may open a file more than once.
	keys map[string][]byte
}

func (p *PassphraseIdentity) Unwrap(stanzas []*age.Stanza) ([]byte, error) {
	for _, s := range stanzas {
		if s.Type == "scrypt" {
			return p.unwrapOnce(fmt.Sprintf("%q %q", s.Args, s.Body), stanzas)
		}
	}
	return nil, age.ErrIncorrectIdentity
}

func (p *PassphraseIdentity) unwrapOnce(wrapped string, stanzas []*age.Stanza) ([]byte, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if key, ok := p.keys[wrapped]; ok && len(stanzas) == 1 {
		// A header with several stanzas is not cached, because age must see and reject a scrypt stanza beside others.
		return slices.Clone(key), nil
	}
	key, err := p.unwrapLocked(stanzas)
	if err != nil {
		return nil, err
	}
	if p.keys == nil {
		p.keys = map[string][]byte{}
	}
	p.keys[wrapped] = slices.Clone(key)
	return key, nil
}

func (p *PassphraseIdentity) unwrapLocked(stanzas []*age.Stanza) ([]byte, error) {
	if p.Fits != "" {
		if key, err := unwrapWith(p.Fits, stanzas); err == nil {
			return key, nil
		}
	}
	text, err := p.Ask("Passphrase: ")
	if err != nil {
		return nil, err
	}
	key, err := unwrapWith(text, stanzas)
	if err == nil {
		p.Fits = text
	}
	if errors.Is(err, age.ErrIncorrectIdentity) {
		return nil, passphraseError{command.WithHint(errors.New("the snapshot cannot be decrypted with that passphrase"),
			"it is that of "+PassphraseVariable+" if this is set, else it is asked for")}
	}
	return key, err
}

func unwrapWith(text string, stanzas []*age.Stanza) ([]byte, error) {
	id, err := agekeys.PassphraseIdentity(text)
	if err != nil {
		return nil, passphraseError{err}
	}
	return id.Unwrap(stanzas)
}

type passphraseError struct{ error }

// Unwrap also returns age's error for an identity that does not match, so that age, and so package snapshot, treats a
// wrong passphrase like a wrong key.
func (e passphraseError) Unwrap() []error {
	return []error{e.error, errPassphrase, age.ErrIncorrectIdentity}
}

func Passphrase(s command.IO, prompt string) (string, error) {
	if text := os.Getenv(PassphraseVariable); text != "" {
		return text, nil
	}
	if s.AskSecret == nil {
		return "",
			passphraseError{command.WithHint(errors.New("a passphrase is needed, and there is no terminal to ask for it"),
				"set %s", PassphraseVariable)}
	}
	text, err := s.AskSecret(prompt)
	if errors.Is(err, context.Canceled) { // an interrupted prompt is not reported as a missing passphrase
		return "", err
	}
	if err != nil {
		return "", passphraseError{fmt.Errorf("the passphrase could not be read: %w", err)}
	}
	return text, nil
}

func NewPassphrase(s command.IO) (string, error) {
	text, err := Passphrase(s, "Passphrase: ")
	if err != nil || os.Getenv(PassphraseVariable) != "" {
		return text, err
	}
	again, err := Passphrase(s, "Passphrase again: ")
	if err == nil && again != text {
		err = command.Usage(passphraseError{errors.New("the two passphrases differ")})
	}
	return text, err
}
