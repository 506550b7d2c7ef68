package input

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/internal/source"
)

// ErrEnough ends a reading that has seen all it wants.
var ErrEnough = errors.New("enough")

const (
	// completeFor is how long a completion may take: a shell waits for it.
	completeFor = 2 * time.Second
	// mostNames is how many names are offered at most.
	mostNames = 1000
)

// CompleteResources completes the last of several resources.
func CompleteResources(stored []source.Collection, toComplete string) []cobra.Completion {
	before := toComplete[:strings.LastIndex(toComplete, ",")+1]
	var all []cobra.Completion
	for _, r := range Callable(stored) {
		all = append(all, before+r)
	}
	return all
}

// Callable are the names by which what is stored can be asked for: the shortest of each resource that means it,
// and categories.
func Callable(stored []source.Collection) []string {
	var all []string
	known := StoredResources(stored)
	for _, r := range known {
		name := r.Resource
		if meant, _ := source.Match(name, known); meant.GroupVersionResource != r.GroupVersionResource {
			name = r.String()
		}
		if meant, _ := source.Match(name, known); meant.GroupVersionResource != r.GroupVersionResource {
			name = r.Full()
		}
		all = append(all, name)
		for _, c := range r.Categories {
			if len(MembersOf(c, stored)) > 0 {
				all = append(all, c)
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// FirstKeys are the keys of the first objects that a query selects, mostNames at most. It is for hints and completions:
// what cannot be read is left out.
func FirstKeys(ctx context.Context, src source.Source, q source.Query) (keys []string) {
	q.KeysOnly = true
	_ = src.Entries(ctx, q, func(e entry.Entry) error {
		if keys = append(keys, e.Key); len(keys) >= mostNames {
			return ErrEnough
		}
		return nil
	})
	return keys
}

// NamespacesOf are those that the first objects are in that a query selects.
func NamespacesOf(ctx context.Context, src source.Source, q source.Query) (all []string) {
	for _, key := range FirstKeys(ctx, src, q) {
		if ns, _ := SplitKey(key); len(all) == 0 || all[len(all)-1] != ns { // keys are in order
			all = append(all, ns)
		}
	}
	return all
}

// CompleteFiles completes arguments of which the first so many are files, and the others resources of the file that
// from returns: those that everybody knows if it is empty.
func CompleteFiles(files int, from func(args []string) FromFlag) command.Completer {
	return func(cmd *cobra.Command, args []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) < files {
			return nil, cobra.ShellCompDirectiveDefault
		}
		f := from(args)
		if f.Path == "" {
			return command.Beginning(source.WellKnown(), toComplete), cobra.ShellCompDirectiveNoFileComp
		}
		var all []cobra.Completion
		f.WithStore(cmd.Context(), func(_ context.Context, _ source.Source, stored []source.Collection) {
			all = CompleteResources(stored, toComplete)
		})
		return command.Beginning(all, toComplete), cobra.ShellCompDirectiveNoFileComp
	}
}

// CompleteKnown offers the resources that everybody knows, which need no server.
func CompleteKnown(_ *cobra.Command, args []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
	known := slices.DeleteFunc(source.WellKnown(), func(name string) bool { return slices.Contains(args, name) })
	return command.Beginning(known, toComplete), cobra.ShellCompDirectiveNoFileComp
}

// WithStore calls f with what --from names. A completion has nobody to tell of an error: there is nothing to offer
// then.
func (f *FromFlag) WithStore(ctx context.Context, fn func(context.Context, source.Source, []source.Collection)) {
	if f.Path = command.OrVariable(f.Path); f.Path == "" {
		return
	}
	if ctx == nil {
		ctx = context.Background()
	}
	ctx, cancel := context.WithTimeout(ctx, completeFor)
	defer cancel()
	identities, _ := f.Identities(command.IO{}) // which asks nobody
	encryption, _ := f.Key.Encryption()         // names can be read without
	src, err := source.Open(ctx, f.Path, source.Options{Wait: completeFor, Identities: identities,
		Encryption: encryption})
	if err != nil {
		return
	}
	defer func() { _ = src.Close() }() // it was only read
	if status, err := src.Status(ctx); err == nil {
		fn(ctx, src, status.Collections)
	}
}
