package file

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"aead.dev/minisign"
	"github.com/spf13/cobra"

	"github.com/larder-dev/larder/internal/cli/command"
)

const keyBytes = 32

// NewKeygen returns larder keygen.
func NewKeygen(s command.IO) *cobra.Command {
	signing := false
	cmd := &cobra.Command{
		Use:   "keygen [FILE]",
		Short: "Make a key that seals Secrets in a store, or one that signs snapshots",
		Long: `Make a key that seals Secrets in a store: 32 random bytes in base64, written to a new file that only
you can read, or to standard output. Without the key, the data sealed with it is lost; a larder sync into another file
lists it again.

With --signing, make a secret key of minisign without a password, which signs snapshots (--sign-key,
--snapshot-sign-key), and print its public key, with which others verify them (--seed-key, --signed-by). If FILE
already has such a key, print its public key.`,
		Example: `  larder keygen store.key
  larder sync pods secrets --key-file store.key --store cluster.db
  larder keygen --signing sign.key >sign.pub`,
		Args: command.NeedArgs(0, 1, "the file to make, or none"),
		RunE: func(_ *cobra.Command, args []string) error {
			if signing {
				return signingKey(s, args)
			}
			key := make([]byte, keyBytes)
			_, _ = rand.Read(key) // rand.Read always fills key and returns no error
			line := base64.StdEncoding.EncodeToString(key) + "\n"
			if len(args) == 0 {
				_, err := fmt.Fprint(s.Out, line)
				return err
			}
			return writeKey(args[0], line)
		},
		ValidArgsFunction: command.CompleteFile,
	}
	cmd.Flags().BoolVar(&signing, "signing", false, "make a key that signs snapshots in FILE, and print its public key")
	return cmd
}

func signingKey(s command.IO, args []string) error {
	if len(args) == 0 {
		return command.Usagef("keygen --signing needs the file to make: the public key is what it prints")
	}
	var there minisign.PrivateKey
	if text, err := os.ReadFile(args[0]); err == nil && there.UnmarshalText(bytes.TrimSpace(text)) == nil {
		_, err := fmt.Fprintln(s.Out, there.Public())
		return err
	}
	public, private, err := minisign.GenerateKey(nil)
	if err != nil {
		return err
	}
	text, err := private.MarshalText()
	if err != nil {
		return err
	}
	if err := writeKey(args[0], string(text)+"\n"); err != nil {
		return err
	}
	_, err = fmt.Fprintln(s.Out, public)
	return err
}

// writeKey creates a key file with one line. It never overwrites a file, because the file may be the only key of a
// store.
func writeKey(path, line string) (err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return command.WithHint(fmt.Errorf("%s is there already, and is left as it is", path),
			"what is sealed with the keys in it needs them: name another file")
	}
	if err != nil {
		return err
	}
	defer func() {
		if err = errors.Join(err, f.Close()); err != nil {
			_ = os.Remove(path) // an incomplete key file is removed
		}
	}()
	if _, err := f.WriteString(line); err != nil {
		return err
	}
	return f.Sync()
}
