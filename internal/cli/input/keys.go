package input

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"

	"aead.dev/minisign"
	"filippo.io/age"
	"github.com/spf13/cobra"

	"github.com/larder-dev/larder/internal/agekeys"
	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/store/seal"
)

// KeyVariable is the environment variable with the encryption keys of a store, for commands without --key-file.
const KeyVariable = "LARDER_KEY"

// MakeKey is the hint that says how to make an encryption key.
const MakeKey = "a key is 32 random bytes in base64: larder keygen FILE makes one"

// SealUsage is the usage text of --key-file in commands that write a store.
const SealUsage = "the `FILE` of the keys that seal Secrets in the store, the current one first. " +
	"Default is the value " +
	"of " + KeyVariable + "; without keys nothing is sealed"

// KeyFlag is the flag --key-file, which names the file of the keys with which a command opens an encrypted store.
type KeyFlag struct{ File string }

// Add adds the flag to a command that writes a store.
func (f *KeyFlag) Add(cmd *cobra.Command) {
	f.AddAs(cmd, SealUsage)
}

// AddAs adds the flag --key-file with the given usage text.
func (f *KeyFlag) AddAs(cmd *cobra.Command, usage string) {
	cmd.Flags().StringVar(&f.File, "key-file", "", usage)
}

// Encryption returns the encryption with the keys in the file of --key-file or in LARDER_KEY; nil without keys.
func (f *KeyFlag) Encryption() (*seal.Encryption, error) {
	keys, err := f.keys()
	if keys == nil || err != nil {
		return nil, err
	}
	return &seal.Encryption{Keys: keys}, nil
}

func (f *KeyFlag) keys() (keys seal.KeyProvider, err error) {
	switch {
	case f.File != "":
		keys, err = seal.KeysFromFile(f.File)
	case os.Getenv(KeyVariable) != "":
		keys, err = seal.KeysFromEnv(KeyVariable)
	}
	if err != nil {
		return nil, command.Usage(command.WithHint(err, MakeKey))
	}
	return keys, nil
}

// noteUnused prints that --key-file was not used, because a running sync has opened the store with its own key. It
// prints nothing about a key in the environment, which may always be set.
func (f *KeyFlag) noteUnused(s command.IO, path string) {
	if f.File != "" {
		fmt.Fprintf(s.Err, "note: the larder sync that holds %s has its own key; that of --key-file %s was not tried\n", path,
			f.File)
	}
}

// ByFlag is the text for hints that names the ways to give a key on the command line.
const ByFlag = "--key-file or " + KeyVariable

// KeyError adds a hint to an error of opening an encrypted store. by says where the user can name the key.
func KeyError(path string, err error, by string) error {
	switch {
	case errors.Is(err, seal.ErrWrongKey):
		return command.WithHint(fmt.Errorf("%s: %w", path, keyCause(err)),
			"%s, behind the new one if that is to follow it; with no key at all, what is not sealed can be read. "+
				"If the key is lost, a larder sync into another file lists everything anew", NameKey(path, by))
	case errors.Is(err, seal.ErrSealed):
		return command.WithHint(fmt.Errorf("%s: %w", path, keyCause(err)), "%s", NameKey(path, by))
	}
	return err
}

// keyCause returns the innermost error that wraps ErrWrongKey or ErrSealed. The outer errors have advice that the hint
// repeats, and name one place of the file, although the key concerns all encrypted data.
func keyCause(err error) error {
	for {
		var next error
		switch w := err.(type) { //nolint:errorlint // the loop unwraps one layer at a time
		case interface{ Unwrap() error }:
			next = w.Unwrap()
		case interface{ Unwrap() []error }:
			for _, one := range w.Unwrap() {
				if errors.Is(one, seal.ErrWrongKey) || errors.Is(one, seal.ErrSealed) {
					next = one
				}
			}
		}
		if next == nil || next == seal.ErrWrongKey || next == seal.ErrSealed { //nolint:errorlint // the sentinel itself
			return err
		}
		err = next
	}
}

// NameKey returns the hint that tells the user to name the key of the store.
func NameKey(path, by string) string {
	return fmt.Sprintf("name the key that %s is sealed with by %s", path, by)
}

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

// Passphrase returns the passphrase in the environment variable, or prompts for it.
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

// NewPassphrase prompts twice for a new passphrase, and fails if the two inputs differ.
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

// maxKey is the maximum size in bytes of a file with a signing key or a public key.
const maxKey = 4 << 10

const keyHint = "larder keygen --signing FILE makes such keys, and so does minisign -G -W"

// PublicKeys parses the values of a flag. Each value is a public key of minisign, or a file with one.
func PublicKeys(flag string, values []string) (all []minisign.PublicKey, err error) {
	for _, value := range values {
		var key minisign.PublicKey
		if key.UnmarshalText([]byte(value)) != nil {
			text, err := readKey(value)
			switch {
			case isSecret([]byte(value)) || err == nil && isSecret(text):
				// The value is a secret key: the error must not repeat it.
				err = errors.New("this is a secret key, which nobody who verifies may have: give the public one, which larder " +
					"keygen --signing has printed")
			case err != nil: // the error does not quote the value, which may be part of a secret key
				err = errors.New("this is neither a public key of minisign nor a file of one that can be read")
			case key.UnmarshalText(text) != nil:
				err = fmt.Errorf("%s is no public key of minisign", value)
			}
			if err != nil {
				return nil, command.Usage(command.WithHint(fmt.Errorf("--%s: %w", flag, err), keyHint))
			}
		}
		all = append(all, key)
	}
	return all, nil
}

func isSecret(text []byte) bool {
	var key minisign.PrivateKey
	return minisign.IsEncrypted(text) || key.UnmarshalText(text) == nil
}

// SigningKey reads a minisign secret key without a password from the file that a flag names. It returns nil if file is
// "".
func SigningKey(flag, file string) (*minisign.PrivateKey, error) {
	if file == "" {
		return nil, nil
	}
	text, err := readKey(file)
	var key minisign.PrivateKey
	switch {
	case err != nil:
	case minisign.IsEncrypted(text):
		err = fmt.Errorf("%s has a password, which nobody could type here", file)
	case key.UnmarshalText(text) != nil: // the error does not wrap its cause, which may quote the key
		err = fmt.Errorf("%s is no secret key of minisign", file)
	default:
		return &key, nil
	}
	return nil, command.Usage(command.WithHint(fmt.Errorf("--%s: %w", flag, err), keyHint))
}

func readKey(file string) ([]byte, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxKey {
		return nil, fmt.Errorf("%s is not the file of a key", file)
	}
	text, err := os.ReadFile(file)
	return []byte(strings.TrimSpace(string(text))), err
}
