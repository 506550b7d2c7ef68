package snapshots

import (
	"errors"
	"fmt"
	"strings"

	"filippo.io/age"
	"github.com/spf13/cobra"

	"github.com/larder-dev/larder/internal/agekeys"
	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/internal/cli/input"
	"github.com/larder-dev/larder/snapshot"
)

// NewSnapshot returns larder snapshot.
func NewSnapshot(s command.IO) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "snapshot",
		Short: "Save a store or a live cluster to a file, restore it, export it, and keep many in a repository",
		Long: `Snapshots are files with the content of a store or of a live cluster: portable, compressed, verified
when they are read, and optionally encrypted. They do not change. Every command that reads a store also reads
snapshots: larder get pods -A --from cluster.larder.

push, pull, list and prune keep snapshots in a repository: a directory, an S3 bucket, or an OCI registry. larder sync
--snapshot-to pushes snapshots regularly, and larder sync --seed begins with the latest one.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return command.UnknownCommand(cmd, args[0])
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.SuggestionsMinimumDistance = 2
	cmd.AddCommand(newSnapshotSave(s), newSnapshotRestore(s), newSnapshotExport(s),
		newSnapshotPush(s), newSnapshotPull(s), newSnapshotList(s), newSnapshotPrune(s))
	return cmd
}

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

// redactFlag is the flag --redact, which names values to remove from a snapshot.
type redactFlag struct{ what []string }

func (f *redactFlag) add(cmd *cobra.Command) {
	cmd.Flags().StringSliceVar(&f.what, "redact", nil,
		"replace values with REDACTED. `WHAT` is secrets, configmaps (their data), annotations=PATTERN, env=PATTERN (* is "+
			"any text), or managedfields, which are removed; several with commas")
}

func (f *redactFlag) redaction() (snapshot.Redaction, error) {
	var r snapshot.Redaction
	for _, what := range f.what {
		name, pattern, hasPattern := strings.Cut(what, "=")
		name = strings.ToLower(name)
		takesPattern := name == "annotations" || name == "env"
		switch {
		case takesPattern && pattern == "":
			return r, command.Usagef("--redact %s needs a pattern, as in %[1]s=*token*; %[1]s=* is all of them", name)
		case hasPattern && !takesPattern:
			return r, command.Usagef("--redact %s takes no pattern", name)
		}
		switch name {
		case "secrets":
			r.Secrets = true
		case "configmaps":
			r.ConfigMaps = true
		case "managedfields":
			r.ManagedFields = true
		case "annotations":
			r.Annotations = append(r.Annotations, pattern)
		case "env":
			r.Env = append(r.Env, pattern)
		default:
			return r,
				command.Usagef(
					"--redact does not know %q; it takes secrets, configmaps, annotations=PATTERN, env=PATTERN and managedfields",
					name)
		}
	}
	return r, nil
}
