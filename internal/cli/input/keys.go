package input

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/store/seal"
)

const KeyVariable = "LARDER_KEY"

const MakeKey = "a key is 32 random bytes in base64: larder keygen FILE makes one"

// SealUsage is the usage text of --key-file in commands that write a store.
const SealUsage = "the `FILE` of the keys that seal Secrets in the store, the current one first. " +
	"Default is the value " +
	"of " + KeyVariable + "; without keys nothing is sealed"

type KeyFlag struct{ File string }

func (f *KeyFlag) Add(cmd *cobra.Command) {
	f.AddAs(cmd, SealUsage)
}

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

func NameKey(path, by string) string {
	return fmt.Sprintf("name the key that %s is sealed with by %s", path, by)
}
