package file

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/larder-dev/larder/internal/cli/command"
)

// keyBytes is how long a key is.
const keyBytes = 32

// NewKeygen returns larder keygen.
func NewKeygen(s command.IO) *cobra.Command {
	return &cobra.Command{
		Use:   "keygen [FILE]",
		Short: "Make a key that seals Secrets in a store",
		Long: `Make a key that seals Secrets in a store: 32 random bytes in base64. It is written to a new file that only
you can read, or to standard output. Who loses it loses what is sealed with it: a larder sync into another file lists
that anew.`,
		Example: `  larder keygen store.key
  larder sync pods secrets --key-file store.key --store cluster.db`,
		Args: command.NeedArgs(0, 1, "the file to make, or none"),
		RunE: func(_ *cobra.Command, args []string) error {
			key := make([]byte, keyBytes)
			_, _ = rand.Read(key) // which does not fail
			line := base64.StdEncoding.EncodeToString(key) + "\n"
			if len(args) == 0 {
				_, err := fmt.Fprint(s.Out, line)
				return err
			}
			return writeKey(args[0], line)
		},
		ValidArgsFunction: command.CompleteFile,
	}
}

// writeKey makes the file of a key. One that is there may be the key of a store.
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
			_ = os.Remove(path) // it is no whole key
		}
	}()
	if _, err := f.WriteString(line); err != nil {
		return err
	}
	return f.Sync()
}
