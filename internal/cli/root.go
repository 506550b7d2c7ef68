package cli

import (
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
)

// newRoot returns the command tree.
func newRoot(s IO) *cobra.Command {
	root := &cobra.Command{
		Use:   "larder",
		Short: "A persistent mirror of Kubernetes resources",
		Long: `Larder mirrors resources of a Kubernetes cluster into one file. A restart resumes the
watch from the file instead of listing again, and the file can be read with no API server.

  larder sync pods deployments --store cluster.db         mirror until stopped
  larder get pods -A --from cluster.db                    read, also offline or while sync runs
  larder snapshot save cluster.larder --from cluster.db   keep it in a file that every command reads

LARDER_STORE names the store where no flag does, and a file may stand before the resources: larder get cluster.db pods
-A.

Exit codes: 0 done; 1 what was asked for failed, was not found, or has problems; 2 the command was used wrongly.
larder diff: 0 no difference; 1 a difference; 2 used wrongly; 3 not compared.`,
		Version:       versionText(),
		SilenceErrors: true,
		SilenceUsage:  true,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return unknownCommand(cmd, args[0])
		},
		RunE:              func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		Annotations:       map[string]string{cobra.CommandDisplayNameAnnotation: displayName(s.Program)},
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	root.SetVersionTemplate("{{.Version}}\n")
	root.SuggestionsMinimumDistance = 2
	root.SetOut(s.Out)
	root.SetErr(s.Err)
	root.SetFlagErrorFunc(flagError)
	root.AddCommand(newSync(s), newGet(s), newWatch(s), newStatus(s), newCheck(s), newDiff(s), newSnapshot(s),
		newCompact(s), newKeygen(s), newChown(), newVersion(s), newCompletion(s))
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

// displayName is what usage lines call the program: kubectl runs kubectl-larder as `kubectl larder`.
func displayName(program string) string {
	name := strings.TrimSuffix(filepath.Base(program), ".exe")
	if plugin, ok := strings.CutPrefix(name, "kubectl-"); ok {
		return "kubectl " + strings.ReplaceAll(plugin, "_", "-")
	}
	return "larder"
}

// needArgs checks the number of arguments; most below 0 is no limit.
func needArgs(least, most int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < least || (most >= 0 && len(args) > most) {
			return usagef("%s needs %s; see %[1]s --help", cmd.CommandPath(), what)
		}
		return nil
	}
}

// noArgs is for commands without arguments.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef("%s takes no argument, but was given %q; see %[1]s --help", cmd.CommandPath(), args[0])
	}
	return nil
}

// storeFlag is --store, which every command that writes a store needs.
type storeFlag struct{ path string }

func (f *storeFlag) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.path, "store", "", "the store's `FILE` (required, or "+storeVariable+")")
}

func (f *storeFlag) check() error {
	if f.path = orVariable(f.path); f.path == "" {
		return required("store")
	}
	return nil
}

// outputFlag is -o with the formats that a command knows.
type outputFlag struct {
	format  string
	formats []string
}

func (f *outputFlag) add(cmd *cobra.Command, formats ...string) {
	f.formats = formats
	cmd.Flags().StringVarP(&f.format, "output", "o", formats[0], "output `FORMAT`: "+strings.Join(formats, ", "))
}

func (f *outputFlag) check() error {
	for _, known := range f.formats {
		if f.format == known {
			return nil
		}
	}
	return usagef("unknown output format %q; known are %s", f.format, strings.Join(f.formats, ", "))
}
