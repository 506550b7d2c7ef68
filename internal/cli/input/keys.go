package input

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/store/seal"
)

// KeyVariable holds the keys of a store where no file is named.
const KeyVariable = "LARDER_KEY"

// MakeKey says how to come by a key.
const MakeKey = "a key is 32 random bytes in base64: larder keygen FILE makes one"

// SealUsage is what --key-file is for where a store is written.
const SealUsage = "the `FILE` of the keys that seal Secrets in the store, the current one first. Default is what " +
	KeyVariable + " holds; without keys nothing is sealed"

// KeyFlag is --key-file, which every command that opens a store has.
type KeyFlag struct{ File string }

// Add adds the flag to a command that writes a store.
func (f *KeyFlag) Add(cmd *cobra.Command) {
	f.AddAs(cmd, SealUsage)
}

// AddAs adds the flag with a usage of its own.
func (f *KeyFlag) AddAs(cmd *cobra.Command, usage string) {
	cmd.Flags().StringVar(&f.File, "key-file", "", usage)
}

// Encryption is what the keys seal; nil if there are none.
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

// noteUnused says of a key that was named on the command line that the sync which holds the store has opened it with
// its own. The variable is not an answer to this command, and may always be set.
func (f *KeyFlag) noteUnused(s command.IO, path string) {
	if f.File != "" {
		fmt.Fprintf(s.Err, "note: the larder sync that holds %s has its own key; that of --key-file %s was not tried\n", path,
			f.File)
	}
}

// ByFlag is where a key is named on the command line.
const ByFlag = "--key-file or " + KeyVariable

// KeyError adds to an error of a sealed store what to do. by is where a key is named.
func KeyError(path string, err error, by string) error {
	switch {
	case errors.Is(err, seal.ErrWrongKey):
		return command.WithHint(fmt.Errorf("%s: %w", path, misfit(err)),
			"%s, behind the new one if that is to follow it; with no key at all, what is not sealed can be read. "+
				"If the key is lost, a larder sync into another file lists everything anew", NameKey(path, by))
	case errors.Is(err, seal.ErrSealed):
		return command.WithHint(fmt.Errorf("%s: %w", path, misfit(err)), "%s", NameKey(path, by))
	}
	return err
}

// misfit is what an error says of keys that do not fit, or are missing, without what it advises, which a hint does, and
// without where it was met: it is so of all that is sealed.
func misfit(err error) error {
	for {
		var next error
		switch w := err.(type) { //nolint:errorlint // one after the other
		case interface{ Unwrap() error }:
			next = w.Unwrap()
		case interface{ Unwrap() []error }:
			for _, one := range w.Unwrap() {
				if errors.Is(one, seal.ErrWrongKey) || errors.Is(one, seal.ErrSealed) {
					next = one
				}
			}
		}
		if next == nil || next == seal.ErrWrongKey || next == seal.ErrSealed { //nolint:errorlint // likewise
			return err
		}
		err = next
	}
}

// NameKey says how to name the key of a store.
func NameKey(path, by string) string {
	return fmt.Sprintf("name the key that %s is sealed with by %s", path, by)
}
