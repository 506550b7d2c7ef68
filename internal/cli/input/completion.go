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

// ErrEnough ends the reading of entries early, without a failure, when a callback returns it.
var ErrEnough = errors.New("enough")

const (
	// completeFor limits the time of a shell completion, because the shell waits for it.
	completeFor = 2 * time.Second
	mostNames   = 1000
)

// CompleteResources completes the last resource in a comma-separated list of stored resources.
func CompleteResources(stored []source.Collection, toComplete string) []cobra.Completion {
	before := toComplete[:strings.LastIndex(toComplete, ",")+1]
	var all []cobra.Completion
	for _, r := range Callable(stored) {
		all = append(all, before+r)
	}
	return all
}

// Callable returns names that select stored resources: the shortest unambiguous name of each resource, and the
// categories.
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

// FirstKeys returns the keys of the first objects that a query selects, at most mostNames. It serves hints and
// completions, so it ignores read errors.
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

func NamespacesOf(ctx context.Context, src source.Source, q source.Query) (all []string) {
	for _, key := range FirstKeys(ctx, src, q) {
		if ns, _ := SplitKey(key); len(all) == 0 || all[len(all)-1] != ns {
			// Keys are sorted, so equal namespaces are adjacent.
			all = append(all, ns)
		}
	}
	return all
}

// CompleteFiles completes command lines that begin with the given number of files, followed by resources. The resources
// are those in the file of the flag that from returns; without that file, well-known resources.
func CompleteFiles(files int, from func(args []string) FromFlag) command.Completer {
	return func(cmd *cobra.Command, args []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) < files {
			return nil, cobra.ShellCompDirectiveDefault
		}
		f := from(args)
		if f.Path == "" {
			return command.WithPrefix(source.WellKnown(), toComplete), cobra.ShellCompDirectiveNoFileComp
		}
		var all []cobra.Completion
		f.WithStore(cmd.Context(), func(_ context.Context, _ source.Source, stored []source.Collection) {
			all = CompleteResources(stored, toComplete)
		})
		return command.WithPrefix(all, toComplete), cobra.ShellCompDirectiveNoFileComp
	}
}

func CompleteKnown(_ *cobra.Command, args []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
	known := slices.DeleteFunc(source.WellKnown(), func(name string) bool { return slices.Contains(args, name) })
	return command.WithPrefix(known, toComplete), cobra.ShellCompDirectiveNoFileComp
}

// WithStore calls fn with the opened file of --from and its collections. It ignores errors, because a completion cannot
// report them: fn is then not called.
func (f *FromFlag) WithStore(ctx context.Context, fn func(context.Context, source.Source, []source.Collection)) {
	if f.Path = command.OrVariable(f.Path); f.Path == "" {
		return
	}
	if ctx == nil {
		ctx = context.Background()
	}
	ctx, cancel := context.WithTimeout(ctx, completeFor)
	defer cancel()
	identities, _ := f.Identities(command.IO{}) // an empty IO has no terminal, so nothing prompts for a passphrase
	encryption, _ := f.Key.Encryption()         // names of objects can be read without keys
	src, err := source.Open(ctx, f.Path, source.Options{Wait: completeFor, Identities: identities,
		Encryption: encryption})
	if err != nil {
		return
	}
	defer func() { _ = src.Close() }()
	if status, err := src.Status(ctx); err == nil {
		fn(ctx, src, status.Collections)
	}
}
