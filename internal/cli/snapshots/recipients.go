package snapshots

import (
	"errors"
	"fmt"

	"filippo.io/age"
	"github.com/spf13/cobra"

	"github.com/larder-dev/larder/internal/agekeys"
	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/internal/cli/input"
)

// recipientFlags are the flags that name the keys or the passphrase to which a snapshot is encrypted. Without these
// flags it is not encrypted.
type recipientFlags struct {
	recipients []string
	files      []string
	passphrase bool
}

func (f *recipientFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&f.recipients, "recipient", nil,
		"encrypt the snapshot to this public `KEY` of age or ssh; may be given again")
	cmd.Flags().StringArrayVar(&f.files, "recipients-file", nil,
		"encrypt the snapshot to the public keys in `FILE`, one a line; may be given again")
	cmd.Flags().BoolVar(&f.passphrase, "passphrase", false,
		"encrypt the snapshot with a passphrase, read from a prompt or from "+input.PassphraseVariable+
			". Each save, and each opening of the snapshot, takes a second or two of CPU and 256 MiB of memory, to make "+
			"guessing expensive")
}

func (f *recipientFlags) asked() bool { return f.passphrase || len(f.recipients)+len(f.files) > 0 }

func (f *recipientFlags) read(s command.IO) ([]age.Recipient, error) {
	const hint = "age-keygen makes a key and prints its public key, which begins with age1"
	if f.passphrase && len(f.recipients)+len(f.files) > 0 {
		return nil, command.Usagef("a snapshot is encrypted with a passphrase or to public keys, not with both")
	}
	if f.passphrase {
		text, err := input.NewPassphrase(s)
		if err != nil {
			return nil, err
		}
		r, err := agekeys.PassphraseRecipient(text)
		if err != nil {
			return nil, command.Usage(err)
		}
		if scrypt, ok := r.(*age.ScryptRecipient); ok && s.PassphraseWork > 0 {
			scrypt.SetWorkFactor(s.PassphraseWork)
		}
		return []age.Recipient{r}, nil
	}
	var all []age.Recipient
	for _, text := range f.recipients {
		rs, err := agekeys.ParseRecipients(text)
		if err != nil {
			return nil, command.Usage(command.WithHint(fmt.Errorf("--recipient: %w", unline(err)), hint))
		}
		all = append(all, rs...)
	}
	for _, file := range f.files {
		rs, err := agekeys.ReadRecipients(file)
		if err != nil {
			return nil, command.Usage(command.WithHint(fmt.Errorf("--recipients-file: %w", err), hint))
		}
		all = append(all, rs...)
	}
	return all, nil
}

// unline removes "line 1: " from the beginning of an error's text, because a flag has only one line.
func unline(err error) error {
	if cause := errors.Unwrap(err); cause != nil {
		return cause
	}
	return err
}
