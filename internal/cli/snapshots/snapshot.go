package snapshots

import (
	"github.com/spf13/cobra"

	"github.com/larder-dev/larder/internal/cli/command"
)

// NewSnapshot returns larder snapshot.
func NewSnapshot(s command.IO) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "snapshot",
		Short: "Save stores or a live cluster to a file, make stores or YAML of it, and keep many in a repository",
		Long: `Snapshots are files that hold what stores hold, or what a live cluster has: portable, compressed, verified
when they are read, encrypted if that is asked for. They do not change. Every command that reads a store reads them
too: larder get pods -A --from cluster.larder.

push, pull, list and prune keep snapshots in a repository: a directory, a bucket of S3, or an OCI registry. larder sync
--snapshot-to does so all the time, and larder sync --seed begins with the latest one.`,
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
