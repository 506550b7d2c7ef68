package cli

import (
	"errors"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/internal/cli/file"
	"github.com/larder-dev/larder/internal/cli/mirror"
	"github.com/larder-dev/larder/internal/cli/query"
	"github.com/larder-dev/larder/internal/cli/serving"
	"github.com/larder-dev/larder/internal/cli/snapshots"
)

func newRoot(s command.IO) *cobra.Command {
	root := &cobra.Command{
		Use:   "larder",
		Short: "A persistent mirror of Kubernetes resources",
		Long: `Larder mirrors resources of a Kubernetes cluster into one file. A restart resumes the
watch from the file instead of listing again, and the file can be read without an API server.

  larder sync pods deployments --store cluster.db         mirror until stopped
  larder get pods -A --from cluster.db                    read, also offline or while sync runs
  larder snapshot save cluster.larder --from cluster.db   save it to a file that every command reads

LARDER_STORE names the store if no flag does. A file may also come before the resources: larder get cluster.db pods -A.

Exit codes: 0 success; 1 the request failed, found nothing, or found problems; 2 wrong usage.
larder diff: 0 no difference; 1 a difference; 2 wrong usage; 3 not compared.`,
		Version:       versionText(),
		SilenceErrors: true,
		SilenceUsage:  true,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return command.UnknownCommand(cmd, args[0], args[1:]...)
		},
		RunE:              func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		Annotations:       map[string]string{cobra.CommandDisplayNameAnnotation: displayName(s.Program)},
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetOut(s.Out)
	root.SetErr(s.Err)
	root.SetFlagErrorFunc(flagError)
	root.AddCommand(mirror.NewSync(s), query.NewGet(s), query.NewWatch(s), query.NewLog(s),
		file.NewStatus(s), file.NewWait(s), file.NewCheck(s),
		query.NewDiff(s), snapshots.NewSnapshot(s), serving.NewServe(s),
		file.NewCompact(s), file.NewKeygen(s), file.NewChown(), newVersion(s), newCompletion(s))
	for _, sub := range root.Commands() {
		if sub.ValidArgsFunction == nil && len(sub.ValidArgs) == 0 {
			sub.ValidArgsFunction = cobra.NoFileCompletions
		}
	}
	if name := displayName(s.Program); name != "larder" {
		asNamed(root, name)
	}
	fitHelp(root, s)
	return root
}

// displayName returns the program's name for usage lines. For kubectl-larder it is `kubectl larder`: kubectl runs
// plugins under that name.
func displayName(program string) string {
	name := strings.TrimSuffix(filepath.Base(program), ".exe")
	if plugin, ok := strings.CutPrefix(name, "kubectl-"); ok {
		return "kubectl " + strings.ReplaceAll(plugin, "_", "-")
	}
	return "larder"
}

// flagError returns the usage error for an invalid flag. If cmd has subcommands and an argument is left over, the user
// has probably misspelled a subcommand. The error then reports the misspelling instead of the flag.
func flagError(cmd *cobra.Command, err error) error {
	if args := cmd.Flags().Args(); cmd.HasAvailableSubCommands() && len(args) > 0 {
		return command.UnknownCommand(cmd, args[0])
	}
	var invalid *pflag.InvalidValueError
	if errors.As(err, &invalid) {
		switch invalid.GetFlag().Value.(type) {
		case *command.SizeValue, *command.AgeValue:
			// The errors of some flag types already name the flag and its valid values.
			return command.Usagef("--%s %w", invalid.GetFlag().Name, invalid.Unwrap())
		}
	}
	return command.Usagef("%w; see %s --help", err, cmd.CommandPath())
}
