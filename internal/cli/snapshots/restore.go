package snapshots

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/spf13/cobra"

	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/internal/cli/input"
	"github.com/larder-dev/larder/snapshot"
	"github.com/larder-dev/larder/store"
)

type restoreOptions struct {
	store          command.StoreFlag
	identity       input.IdentityFlag
	keys           []string
	persistSecrets bool
}

func newSnapshotRestore(s command.IO) *cobra.Command {
	var o restoreOptions
	cmd := &cobra.Command{
		Use:   "restore SNAPSHOT --store NEW",
		Short: "Make a store from a snapshot; sync resumes from it",
		Long: `Make a new store from a snapshot. larder sync resumes the watch from it without a list, if the server
still has the changes since the snapshot was taken. Collections from which objects or values were left out, when the
snapshot was taken, are listed first. To restore a part of a snapshot, make a snapshot of that part: larder snapshot
save PART --from SNAPSHOT.

The store appears in one step when it is complete; an existing file is never replaced. Secrets are stored only with
keys that seal them (--key-file), with --persist-secrets, as in larder sync, or if they were redacted. The keys that
verify tokens of service accounts are restored only with --signed-by; otherwise the next larder sync fetches them.`,
		Example: `  larder snapshot restore cluster.larder --store node.db`,
		Args:    command.NeedArgs(1, 1, "a snapshot"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.run(cmd.Context(), s, args[0])
		},
		ValidArgsFunction: command.CompleteFile,
	}
	o.store.Add(cmd)
	cmd.Flags().Lookup("store").Usage = "the `FILE` of the store to make (required, or " + command.StoreVariable + ")"
	o.identity.Add(cmd)
	cmd.Flags().Lookup("key-file").Usage = input.SealUsage
	cmd.Flags().StringArrayVar(&o.keys, "signed-by", nil,
		"refuse a snapshot that is not signed by this public `KEY` of minisign, or by the one in the file KEY; may be given "+
			"again")
	cmd.Flags().BoolVar(&o.persistSecrets, "persist-secrets", false,
		"store Secrets in the file, also without keys that seal them")
	return cmd
}

func (o *restoreOptions) run(ctx context.Context, s command.IO, path string) (err error) {
	if err := o.store.Check(); err != nil {
		return command.Usage(err)
	}
	if is, err := snapshot.Is(path); err != nil || !is {
		return o.noSnapshot(path, err)
	}
	ro := snapshot.RestoreOptions{Secrets: o.persistSecrets}
	if ro.Import.Store.Encryption, err = o.identity.Key.Encryption(); err != nil {
		return err
	}
	if ro.Identities, err = o.identity.Identities(s); err != nil {
		return err
	}
	if ro.SignedBy, err = input.PublicKeys("signed-by", o.keys); err != nil {
		return err
	}
	var done func()
	ro.Progress, done = s.Bar("restoring")
	restored, err := snapshot.Restore(ctx, path, o.store.Path, ro)
	done()
	if err != nil {
		return command.IfInterrupted(ctx, o.restoreError(path, err), "no store was made")
	}
	return o.printResult(s, restored)
}

// noSnapshot returns the error for a file that is no snapshot, or that cannot be read because of err.
func (o *restoreOptions) noSnapshot(path string, err error) error {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return unreadableError(path, err)
	case !input.Exists(path):
		return command.WithHint(fmt.Errorf("no snapshot at %s", path), "%s", input.MakeSnapshot(path))
	case input.IsDirectory(path):
		return input.DirectoryError(path)
	case input.Missing(path):
		return input.EmptyError(path)
	}
	return command.WithHint(fmt.Errorf("%s is no snapshot", path),
		"larder snapshot save FILE --from %s makes one of a store",
		path)
}

func (o *restoreOptions) printResult(s command.IO, r snapshot.Restored) error {
	_, err := fmt.Fprintf(s.Out, "%s: %s, %s\n", o.store.Path, command.Within(r.Objects, len(r.Collections)),
		command.Size(r.Bytes))
	for _, left := range r.LeftOutCollections() {
		fmt.Fprintln(s.Err, "note: not restored:", left)
	}
	if len(r.LeftOutCollections()) > 0 && !o.persistSecrets {
		fmt.Fprintln(s.Err, "hint: --key-file FILE stores Secrets sealed, --persist-secrets as they are; larder sync lists "+
			"what is not there")
	}
	input.PrintNotes(s, described(r.Collections))
	return err
}

func unreadableError(path string, err error) error {
	return command.WithHint(fmt.Errorf("%s cannot be read: %w", path, err),
		"run as a user who may read it, or have its owner allow it")
}

func (o *restoreOptions) restoreError(path string, err error) error {
	to := o.store.Path
	switch {
	case errors.Is(err, store.ErrExists):
		return command.WithHint(fmt.Errorf("%s is there already", to),
			"name another file with --store, or remove it if it is of no more use: a restore replaces nothing")
	case errors.Is(err, store.ErrLocked):
		return command.WithHint(command.Reworded(err, "another process makes or opens a store at %s", to),
			"wait until it is done, or name another file with --store")
	case errors.Is(err, store.ErrNoSpace):
		return command.WithHint(err, "make room on that disk; nothing was made")
	case errors.Is(err, snapshot.ErrDamaged):
		return command.WithHint(err, "nothing was made: %s", input.DamagedHint(path))
	case errors.Is(err, snapshot.ErrUndecodable):
		return input.DecodeError(path, err)
	case input.CheckPath(to) != nil:
		return input.CheckPath(to)
	case errors.Is(err, fs.ErrPermission) && input.IsOf(path, err):
		return unreadableError(path, err)
	case errors.Is(err, fs.ErrPermission):
		return command.WithHint(fmt.Errorf("no store can be made at %s: %w", to, err), writeElsewhere)
	}
	return o.identity.OpenError(path, err)
}
