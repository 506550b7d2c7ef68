package cli

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/internal/source"
)

func (o *getOptions) completeFormats(
	_ *cobra.Command, _ []string, toComplete string,
) ([]cobra.Completion, cobra.ShellCompDirective) {
	o.print.watched = o.print.watched || o.watch
	isDefault := func(f string) bool { return f == formatTable }
	offered := slices.DeleteFunc(o.print.formats(), isDefault)
	return command.Beginning(offered, toComplete), cobra.ShellCompDirectiveNoFileComp
}

// complete offers resources and categories for the first argument, and names of objects after that: by themselves after
// a resource, and behind RESOURCE/. With no store it offers the resources that everybody knows.
func (o *getOptions) complete(
	cmd *cobra.Command, args []string, toComplete string,
) ([]cobra.Completion, cobra.ShellCompDirective) {
	args = o.from.leadingFile(args)
	if o.from.path = command.OrVariable(o.from.path); o.from.path == "" && len(args) == 0 {
		return command.Beginning(source.WellKnown(), toComplete), cobra.ShellCompDirectiveNoFileComp
	}
	var all []cobra.Completion
	directive := cobra.ShellCompDirectiveNoFileComp
	o.from.withStore(cmd.Context(), func(ctx context.Context, src source.Source, stored []source.Collection) {
		slashed := len(args) == 0 || strings.Contains(args[0], "/")
		if name, _, ok := strings.Cut(toComplete, "/"); ok && slashed {
			for _, object := range o.names(ctx, src, stored, name, nil) {
				all = append(all, name+"/"+object)
			}
			return
		}
		switch {
		case len(args) == 0:
			all = completeResources(stored, toComplete)
		case slashed:
			for _, r := range callable(stored) {
				all = append(all, r+"/")
			}
			directive |= cobra.ShellCompDirectiveNoSpace
		default:
			all = o.names(ctx, src, stored, args[0], args[1:])
		}
	})
	return command.Beginning(all, toComplete), directive
}

// names are those of the stored objects of a resource, in the namespace that -n names, but for those that are named
// already.
func (o *getOptions) names(
	ctx context.Context, src source.Source, stored []source.Collection, resource string, but []string,
) []string {
	c, err := choose(o.from.path, stored, request{resource: resource, namespace: o.namespace, all: o.all,
		collection: o.collection})
	if err != nil {
		return nil
	}
	var all []string
	for _, q := range o.queries(answer{choice: c}) {
		for _, key := range firstKeys(ctx, src, q.Query) {
			if _, name := splitKey(key); !slices.Contains(but, name) {
				all = append(all, name)
			}
		}
	}
	return all
}

func (o *getOptions) completeNamespaces(
	cmd *cobra.Command, args []string, toComplete string,
) ([]cobra.Completion, cobra.ShellCompDirective) {
	o.from.leadingFile(args)
	var all []cobra.Completion
	o.from.withStore(cmd.Context(), func(ctx context.Context, src source.Source, stored []source.Collection) {
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
				all = append(all, namespacesOf(ctx, src, source.Query{Collection: c.ID})...)
			}
		}
	})
	slices.Sort(all)
	return command.Beginning(slices.Compact(all), toComplete), cobra.ShellCompDirectiveNoFileComp
}

func (o *getOptions) completeCollections(
	cmd *cobra.Command, args []string, toComplete string,
) ([]cobra.Completion, cobra.ShellCompDirective) {
	o.from.leadingFile(args)
	var all []cobra.Completion
	o.from.withStore(cmd.Context(), func(_ context.Context, _ source.Source, stored []source.Collection) {
		for _, c := range stored {
			r := resourceOf(c)
			all = append(all, cobra.CompletionWithDesc(c.ID, r.String()+", "+scope(c)+", "+c.Representation))
		}
	})
	return command.Beginning(all, toComplete), cobra.ShellCompDirectiveNoFileComp
}
