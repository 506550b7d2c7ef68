package snapshots

import (
	"github.com/spf13/cobra"

	"github.com/larder-dev/larder/internal/cli/command"
)

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
