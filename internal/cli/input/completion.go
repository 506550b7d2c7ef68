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

// ErrEnough, returned by a callback, ends a read early.
var ErrEnough = errors.New("enough")

const (
	// completeFor limits the time of a completion, because the shell waits for it.
	completeFor = 2 * time.Second
	// mostNames limits the number of completions.
	mostNames = 1000
)

// CompleteResources completes the last resource of a comma-separated list.
func CompleteResources(stored []source.Collection, toComplete string) []cobra.Completion {
	before := toComplete[:strings.LastIndex(toComplete, ",")+1]
	var all []cobra.Completion
	for _, r := range Callable(stored) {
		all = append(all, before+r)
	}
	return all
}

// Callable returns the names that select stored resources: for each resource the shortest unambiguous one, and the
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

// FirstKeys returns the keys of at most mostNames objects selected by a query. It serves hints and completions, so read
// errors are ignored.
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

// NamespacesOf returns the namespaces of the objects whose keys FirstKeys returns.
func NamespacesOf(ctx context.Context, src source.Source, q source.Query) (all []string) {
	for _, key := range FirstKeys(ctx, src, q) {
		if ns, _ := SplitKey(key); len(all) == 0 || all[len(all)-1] != ns { // keys are in order
			all = append(all, ns)
		}
	}
	return all
}

// CompleteFiles completes arguments that begin with the given number of files. The others are resources of the file
// that from returns; if that is empty, well-known resources.
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

// CompleteKnown completes well-known resources, without a server.
func CompleteKnown(_ *cobra.Command, args []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
	known := slices.DeleteFunc(source.WellKnown(), func(name string) bool { return slices.Contains(args, name) })
	return command.WithPrefix(known, toComplete), cobra.ShellCompDirectiveNoFileComp
}

// WithStore calls fn with the opened file of --from and its collections. Errors are ignored: a completion cannot report
// them, and completes nothing then.
func (f *FromFlag) WithStore(ctx context.Context, fn func(context.Context, source.Source, []source.Collection)) {
	if f.Path = command.OrVariable(f.Path); f.Path == "" {
		return
	}
	if ctx == nil {
		ctx = context.Background()
	}
	ctx, cancel := context.WithTimeout(ctx, completeFor)
	defer cancel()
	identities, _ := f.Identities(command.IO{}) // does not prompt
	encryption, _ := f.Key.Encryption()         // names are readable without keys
	src, err := source.Open(ctx, f.Path, source.Options{Wait: completeFor, Identities: identities,
		Encryption: encryption})
	if err != nil {
		return
	}
	defer func() { _ = src.Close() }() // nothing was written
	if status, err := src.Status(ctx); err == nil {
		fn(ctx, src, status.Collections)
	}
}
