package cli

import (
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/larder-dev/larder/internal/cli/command"
)

func newCompletion(s command.IO) *cobra.Command {
	shells := []string{"bash", "zsh", "fish", "powershell"}
	return &cobra.Command{
		Use:   "completion bash|zsh|fish|powershell",
		Short: "Print a script that completes larder's command line in a shell",
		Long: `Print a script that completes larder's command line in a shell: commands, flags, files, output
formats, and names from the store of --from: resources, categories, objects, namespaces and collections. It also works
while larder sync holds the store. Give the file or --from before the word to complete, or set LARDER_STORE. In bash
the package bash-completion is not needed.

As a plugin, with larder installed as kubectl-larder, kubectl's own completion runs the program
kubectl_complete-larder in the PATH, which can be this script:

  #!/bin/sh
  exec kubectl larder __complete "$@"`,
		Example: `  source <(larder completion bash)
  larder completion zsh > "${fpath[1]}/_larder"
  larder completion fish > ~/.config/fish/completions/larder.fish`,
		ValidArgs: shells,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 || !slices.Contains(shells, args[0]) {
				return command.Usagef("%s needs one of %s", cmd.CommandPath(), strings.Join(shells, ", "))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			switch args[0] {
			case "bash":
				if _, err := io.WriteString(s.Out, withoutBashCompletion); err != nil {
					return err
				}
				return root.GenBashCompletionV2(s.Out, true)
			case "zsh":
				return root.GenZshCompletion(s.Out)
			case "fish":
				return root.GenFishCompletion(s.Out, true)
			}
			return root.GenPowerShellCompletionWithDesc(s.Out)
		},
	}
}
