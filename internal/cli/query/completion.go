package query

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/internal/cli/input"
	"github.com/larder-dev/larder/internal/source"
)

func (o *getOptions) completeFormats(
	_ *cobra.Command, _ []string, toComplete string,
) ([]cobra.Completion, cobra.ShellCompDirective) {
	o.print.watched = o.print.watched || o.watch
	isDefault := func(f string) bool { return f == formatTable }
	offered := slices.DeleteFunc(o.print.formats(), isDefault)
	return command.WithPrefix(offered, toComplete), cobra.ShellCompDirectiveNoFileComp
}

// complete is the shell completion of larder get. It offers resources and categories for the first argument. After a
// resource it offers names of its objects, and after RESOURCE/NAME more RESOURCE/NAME arguments. Without a store it
// offers well-known resources.
func (o *getOptions) complete(
	cmd *cobra.Command, args []string, toComplete string,
) ([]cobra.Completion, cobra.ShellCompDirective) {
	args = o.from.LeadingFile(args)
	if o.from.Path = command.OrVariable(o.from.Path); o.from.Path == "" && len(args) == 0 {
		return command.WithPrefix(source.WellKnown(), toComplete), cobra.ShellCompDirectiveNoFileComp
	}
	var all []cobra.Completion
	directive := cobra.ShellCompDirectiveNoFileComp
	o.from.WithStore(cmd.Context(), func(ctx context.Context, src source.Source, stored []source.Collection) {
		slashed := len(args) == 0 || strings.Contains(args[0], "/")
		if name, _, ok := strings.Cut(toComplete, "/"); ok && slashed {
			for _, object := range o.names(ctx, src, stored, name, nil) {
				all = append(all, name+"/"+object)
			}
			return
		}
		switch {
		case len(args) == 0:
			all = input.CompleteResources(stored, toComplete)
		case slashed:
			for _, r := range input.Callable(stored) {
				all = append(all, r+"/")
			}
			directive |= cobra.ShellCompDirectiveNoSpace
		default:
			all = o.names(ctx, src, stored, args[0], args[1:])
		}
	})
	return command.WithPrefix(all, toComplete), directive
}

func (o *getOptions) names(
	ctx context.Context, src source.Source, stored []source.Collection, resource string, but []string,
) []string {
	c, err := input.Choose(o.from.Path, stored, input.Request{Resource: resource, Namespace: o.namespace, All: o.all,
		Collection: o.collection})
	if err != nil {
		return nil
	}
	var all []string
	for _, q := range o.queries(answer{Choice: c}) {
		for _, key := range input.FirstKeys(ctx, src, q.Query) {
			if _, name := input.SplitKey(key); !slices.Contains(but, name) {
				all = append(all, name)
			}
		}
	}
	return all
}

func (o *getOptions) completeNamespaces(
	cmd *cobra.Command, args []string, toComplete string,
) ([]cobra.Completion, cobra.ShellCompDirective) {
	o.from.LeadingFile(args)
	var all []cobra.Completion
	o.from.WithStore(cmd.Context(), func(ctx context.Context, src source.Source, stored []source.Collection) {
		for _, c := range stored {
			switch {
			case c.Namespace != "":
				all = append(all, c.Namespace)
			case c.Resource == "namespaces" && c.Group == "":
				all = append(all, o.names(ctx, src, stored, "namespaces", nil)...)
			}
		}
		if len(all) > 0 {
			return
		}
		for _, c := range stored {
			if c.Namespaced {
				all = append(all, input.NamespacesOf(ctx, src, source.Query{Collection: c.ID})...)
			}
		}
	})
	slices.Sort(all)
	return command.WithPrefix(slices.Compact(all), toComplete), cobra.ShellCompDirectiveNoFileComp
}

func (o *getOptions) completeCollections(
	cmd *cobra.Command, args []string, toComplete string,
) ([]cobra.Completion, cobra.ShellCompDirective) {
	o.from.LeadingFile(args)
	var all []cobra.Completion
	o.from.WithStore(cmd.Context(), func(_ context.Context, _ source.Source, stored []source.Collection) {
		for _, c := range stored {
			r := c.Named()
			all = append(all, cobra.CompletionWithDesc(c.ID, r.String()+", "+input.Scope(c)+", "+c.Representation))
		}
	})
	return command.WithPrefix(all, toComplete), cobra.ShellCompDirectiveNoFileComp
}
