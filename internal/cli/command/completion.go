package command

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// Completer returns the shell completions of a command's argument, or of a flag's value.
type Completer = func(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective)

// CompleteFlag sets the completer of a flag's value. It panics if the flag does not exist.
func CompleteFlag(cmd *cobra.Command, flag string, f Completer) {
	if err := cmd.RegisterFlagCompletionFunc(flag, f); err != nil {
		panic(err)
	}
}

// WithPrefix returns the strings that begin with the typed prefix.
func WithPrefix(all []string, typed string) []cobra.Completion {
	return slices.DeleteFunc(slices.Clone(all), func(s string) bool { return !strings.HasPrefix(s, typed) })
}

// CompleteFile completes a file name as the first argument, and nothing after it.
func CompleteFile(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return nil, cobra.ShellCompDirectiveDefault
}
