package cli

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/store/seal"
)

// keyVariable holds the keys of a store where no file is named.
const keyVariable = "LARDER_KEY"

// makeKey says how to come by a key.
const makeKey = "a key is 32 random bytes in base64: larder keygen FILE makes one"

// sealUsage is what --key-file is for where a store is written.
const sealUsage = "the `FILE` of the keys that seal Secrets in the store, the current one first. Default is what " +
	keyVariable + " holds; without keys nothing is sealed"

// keyFlag is --key-file, which every command that opens a store has.
type keyFlag struct{ file string }

func (f *keyFlag) add(cmd *cobra.Command) {
	f.addAs(cmd, sealUsage)
}

func (f *keyFlag) addAs(cmd *cobra.Command, usage string) {
	cmd.Flags().StringVar(&f.file, "key-file", "", usage)
}

// encryption is what the keys seal; nil if there are none.
func (f *keyFlag) encryption() (*seal.Encryption, error) {
	keys, err := f.keys()
	if keys == nil || err != nil {
		return nil, err
	}
	return &seal.Encryption{Keys: keys}, nil
}

func (f *keyFlag) keys() (keys seal.KeyProvider, err error) {
	switch {
	case f.file != "":
		keys, err = seal.KeyFile(f.file)
	case os.Getenv(keyVariable) != "":
		keys, err = seal.KeysFromEnv(keyVariable)
	}
	if err != nil {
		return nil, command.Usage(command.WithHint(err, makeKey))
	}
	return keys, nil
}

// noteUnused says of a key that was named on the command line that the sync which holds the store has opened it with
// its own. The variable is not an answer to this command, and may always be set.
func (f *keyFlag) noteUnused(s command.IO, path string) {
	if f.file != "" {
		fmt.Fprintf(s.Err, "note: the larder sync that holds %s has its own key; that of --key-file %s was not tried\n", path,
			f.file)
	}
}

// byFlag is where a key is named on the command line.
const byFlag = "--key-file or " + keyVariable

// keyError adds to an error of a sealed store what to do. by is where a key is named.
func keyError(path string, err error, by string) error {
	switch {
	case errors.Is(err, seal.ErrWrongKey):
		return command.WithHint(fmt.Errorf("%s: %w", path, misfit(err)),
			"%s, behind the new one if that is to follow it; with no key at all, what is not sealed can be read. "+
				"If the key is lost, a larder sync into another file lists everything anew", nameKey(path, by))
	case errors.Is(err, seal.ErrSealed):
		return command.WithHint(fmt.Errorf("%s: %w", path, misfit(err)), "%s", nameKey(path, by))
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

// nameKey says how to name the key of a store.
func nameKey(path, by string) string {
	return fmt.Sprintf("name the key that %s is sealed with by %s", path, by)
}
