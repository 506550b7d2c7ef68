package command

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// Completer completes an argument or the value of a flag.
type Completer = func(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective)

// CompleteFlag sets what completes a flag's value. It fails only for a flag that does not exist.
func CompleteFlag(cmd *cobra.Command, flag string, f Completer) {
	if err := cmd.RegisterFlagCompletionFunc(flag, f); err != nil {
		panic(err)
	}
}

// Beginning returns those that begin as what has been typed.
func Beginning(all []string, typed string) []cobra.Completion {
	return slices.DeleteFunc(slices.Clone(all), func(s string) bool { return !strings.HasPrefix(s, typed) })
}

// CompleteFile completes one file.
func CompleteFile(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return nil, cobra.ShellCompDirectiveDefault
}
