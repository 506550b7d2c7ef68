package cli

import (
	"context"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/source"
)

const (
	// completeFor is how long a completion may take: a shell waits for it.
	completeFor = 2 * time.Second
	// mostNames is how many names are offered at most.
	mostNames = 1000
)

func newCompletion(s IO) *cobra.Command {
	shells := []string{"bash", "zsh", "fish", "powershell"}
	return &cobra.Command{
		Use:   "completion bash|zsh|fish|powershell",
		Short: "Print a script that completes larder's command line in a shell",
		Long: `Print a script that completes larder's command line in a shell: commands, flags, files, formats of output,
and what the store that --from names holds: resources, categories, objects, namespaces and collections, also while
larder sync holds it. Give the file or --from before what is to be completed by it, or set LARDER_STORE. In bash the
package bash-completion is not needed.

As a plugin of kubectl, with larder installed as kubectl-larder, kubectl's own completion asks a program in the
PATH named kubectl_complete-larder, which is this script:

  #!/bin/sh
  exec kubectl larder __complete "$@"`,
		Example: `  source <(larder completion bash)
  larder completion zsh > "${fpath[1]}/_larder"
  larder completion fish > ~/.config/fish/completions/larder.fish`,
		ValidArgs: shells,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 || !slices.Contains(shells, args[0]) {
				return usagef("%s needs one of %s", cmd.CommandPath(), strings.Join(shells, ", "))
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

type completer = func(cmd *cobra.Command, args []string, toComplete string) ([]cobra.Completion,
	cobra.ShellCompDirective)

// completeFlag sets what completes a flag's value. It fails only for a flag that does not exist.
func completeFlag(cmd *cobra.Command, flag string, f completer) {
	if err := cmd.RegisterFlagCompletionFunc(flag, f); err != nil {
		panic(err)
	}
}

func (o *getOptions) completeFormats(
	_ *cobra.Command, _ []string, toComplete string,
) ([]cobra.Completion, cobra.ShellCompDirective) {
	o.print.watched = o.print.watched || o.watch
	isDefault := func(f string) bool { return f == formatTable }
	offered := slices.DeleteFunc(o.print.formats(), isDefault)
	return beginning(offered, toComplete), cobra.ShellCompDirectiveNoFileComp
}

// complete offers resources and categories for the first argument, and names of objects after that: by themselves after
// a resource, and behind RESOURCE/. With no store it offers the resources that everybody knows.
func (o *getOptions) complete(
	cmd *cobra.Command, args []string, toComplete string,
) ([]cobra.Completion, cobra.ShellCompDirective) {
	args = o.from.leadingFile(args)
	if o.from.path = orVariable(o.from.path); o.from.path == "" && len(args) == 0 {
		return beginning(source.WellKnown(), toComplete), cobra.ShellCompDirectiveNoFileComp
	}
	var all []cobra.Completion
	directive := cobra.ShellCompDirectiveNoFileComp
	o.withStore(cmd.Context(), func(ctx context.Context, src source.Source, stored []source.Collection) {
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
	return beginning(all, toComplete), directive
}

// completeResources completes the last of several resources.
func completeResources(stored []source.Collection, toComplete string) []cobra.Completion {
	before := toComplete[:strings.LastIndex(toComplete, ",")+1]
	var all []cobra.Completion
	for _, r := range callable(stored) {
		all = append(all, before+r)
	}
	return all
}

// callable are the names by which what is stored can be asked for: the shortest of each resource that is not ambiguous,
// and categories.
func callable(stored []source.Collection) []string {
	var all []string
	known := storedResources(stored)
	for _, r := range known {
		name := r.Resource
		if len(matchResource(name, known)) > 1 {
			name = r.full()
		}
		all = append(all, name)
		for _, c := range r.Categories {
			if len(membersOf(c, stored)) > 0 {
				all = append(all, c)
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
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
	o.withStore(cmd.Context(), func(ctx context.Context, src source.Source, stored []source.Collection) {
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
	return beginning(slices.Compact(all), toComplete), cobra.ShellCompDirectiveNoFileComp
}

// firstKeys are the keys of the first objects that a query selects, mostNames at most. It is for hints and completions:
// what cannot be read is left out.
func firstKeys(ctx context.Context, src source.Source, q source.Query) (keys []string) {
	q.KeysOnly = true
	_ = src.Entries(ctx, q, func(e entry.Entry) error {
		if keys = append(keys, e.Key); len(keys) >= mostNames {
			return errEnough
		}
		return nil
	})
	return keys
}

// namespacesOf are those that the first objects are in that a query selects.
func namespacesOf(ctx context.Context, src source.Source, q source.Query) (all []string) {
	for _, key := range firstKeys(ctx, src, q) {
		if ns, _ := splitKey(key); len(all) == 0 || all[len(all)-1] != ns { // keys are in order
			all = append(all, ns)
		}
	}
	return all
}

func (o *getOptions) completeCollections(
	cmd *cobra.Command, args []string, toComplete string,
) ([]cobra.Completion, cobra.ShellCompDirective) {
	o.from.leadingFile(args)
	var all []cobra.Completion
	o.withStore(cmd.Context(), func(_ context.Context, _ source.Source, stored []source.Collection) {
		for _, c := range stored {
			r := resourceOf(c)
			all = append(all, cobra.CompletionWithDesc(c.ID, r.String()+", "+scope(c)+", "+c.Representation))
		}
	})
	return beginning(all, toComplete), cobra.ShellCompDirectiveNoFileComp
}

// withStore calls f with what --from names. A completion has nobody to tell of an error: there is nothing to offer
// then.
func (o *getOptions) withStore(ctx context.Context, f func(context.Context, source.Source, []source.Collection)) {
	if o.from.path = orVariable(o.from.path); o.from.path == "" {
		return
	}
	if ctx == nil {
		ctx = context.Background()
	}
	ctx, cancel := context.WithTimeout(ctx, completeFor)
	defer cancel()
	identities, _ := o.from.identities(IO{}) // which asks nobody
	encryption, _ := o.from.key.encryption() // names can be read without
	src, err := source.Open(ctx, o.from.path, source.Options{Wait: completeFor, Identities: identities,
		Encryption: encryption})
	if err != nil {
		return
	}
	defer func() { _ = src.Close() }() // it was only read
	if status, err := src.Status(ctx); err == nil {
		f(ctx, src, status.Collections)
	}
}

// beginning returns those that begin as what has been typed.
func beginning(all []string, typed string) []cobra.Completion {
	return slices.DeleteFunc(slices.Clone(all), func(s string) bool { return !strings.HasPrefix(s, typed) })
}
