package cli

import (
	"context"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/larder-dev/larder/internal/source"
)

// completeFiles completes arguments of which the first so many are files, and the others resources of the file that
// from returns: those that everybody knows if it is empty.
func completeFiles(files int, from func(args []string) fromFlag) completer {
	return func(cmd *cobra.Command, args []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) < files {
			return nil, cobra.ShellCompDirectiveDefault
		}
		o := getOptions{from: from(args)}
		if o.from.path == "" {
			return beginning(source.WellKnown(), toComplete), cobra.ShellCompDirectiveNoFileComp
		}
		var all []cobra.Completion
		o.withStore(cmd.Context(), func(_ context.Context, _ source.Source, stored []source.Collection) {
			all = completeResources(stored, toComplete)
		})
		return beginning(all, toComplete), cobra.ShellCompDirectiveNoFileComp
	}
}

// completeFile completes one file.
func completeFile(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return nil, cobra.ShellCompDirectiveDefault
}

// completeKnown offers the resources that everybody knows, which need no server.
func completeKnown(_ *cobra.Command, args []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
	known := slices.DeleteFunc(source.WellKnown(), func(name string) bool { return slices.Contains(args, name) })
	return beginning(known, toComplete), cobra.ShellCompDirectiveNoFileComp
}

// forCompletion makes the descriptions of flags what shells show beside them: the quotes that name a value are for
// help.
func forCompletion(cmd *cobra.Command) {
	plain := func(f *pflag.Flag) { f.Usage = strings.ReplaceAll(f.Usage, "`", "") }
	cmd.Flags().VisitAll(plain)
	cmd.PersistentFlags().VisitAll(plain)
	for _, sub := range cmd.Commands() {
		forCompletion(sub)
	}
}

// ourCommand is a command of larder in a text.
var ourCommand = regexp.MustCompile(
	`(kubectl )?\blarder (--help|sync|get|watch|status|check|diff|snapshot|compact|keygen|version|completion)\b`)

// asNamed has the help of all commands call the program by the name that it was started by.
func asNamed(cmd *cobra.Command, name string) {
	for _, text := range []*string{&cmd.Long, &cmd.Example} {
		*text = ourCommand.ReplaceAllString(*text, name+" $2")
	}
	for _, sub := range cmd.Commands() {
		asNamed(sub, name)
	}
}
