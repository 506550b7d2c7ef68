package input

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"aead.dev/minisign"
	"filippo.io/age"
	"github.com/spf13/cobra"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/agekeys"
	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/internal/source"
	"github.com/larder-dev/larder/snapshot"
)

// FromFlag is the flag --from, which names the file that a command reads, with the flags that decrypt the file.
type FromFlag struct {
	Path string
	// SignedBy holds public keys; a snapshot that Open opens must be signed with one of them. Commands set SignedBy, no
	// flag does.
	SignedBy []minisign.PublicKey
	IdentityFlag
}

// Add adds --from and the flags of IdentityFlag.
func (f *FromFlag) Add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.Path, "from", "",
		"the `FILE` to read: a store, also while larder sync holds it, or a snapshot (required, or "+command.StoreVariable+
			")")
	f.IdentityFlag.Add(cmd)
}

// Check sets the file to the value of LARDER_STORE if the flag is not given. It fails if neither is set.
func (f *FromFlag) Check() error {
	if f.Path = command.OrVariable(f.Path); f.Path == "" {
		return command.Required("from")
	}
	return nil
}

// Open opens the file that --from names for reading.
func (f *FromFlag) Open(ctx context.Context, s command.IO) (source.Source, error) {
	return f.openPath(ctx, s, f.Path, f.SignedBy)
}

// Described opens the file that --from names for reading, and reads its status.
func (f *FromFlag) Described(ctx context.Context, s command.IO) (source.Source, source.Status, error) {
	return f.DescribePath(ctx, s, f.Path)
}

// IdentityFlag holds the flags --identity and --key-file, which decrypt snapshots and open encrypted stores. There is
// no flag for a passphrase, because other users of the machine could read it in the list of processes.
type IdentityFlag struct {
	files []string
	Key   KeyFlag
	// made caches the identities, so that a command prompts once for a passphrase even if it reads two encrypted files.
	made []age.Identity
}

// Add adds the flags.
func (f *IdentityFlag) Add(cmd *cobra.Command) {
	f.Key.AddAs(cmd, "the `FILE` of the keys that open sealed objects of a store. Default is the value of "+KeyVariable+
		"; without keys, names and unsealed objects can be read")
	f.AddIdentity(cmd)
}

// AddIdentity adds --identity alone, for commands that read only snapshots.
func (f *IdentityFlag) AddIdentity(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&f.files, "identity", nil,
		"a `FILE` of age identities or an ssh key that decrypts a snapshot; may be given again. A passphrase is read "+
			"from a prompt, or from "+PassphraseVariable)
}

// Given reports whether the user has given an identity or a passphrase. A snapshot is then decrypted without a prompt.
func (f *IdentityFlag) Given() bool { return len(f.files) > 0 || os.Getenv(PassphraseVariable) != "" }

// Identities reads the identity files. It never prompts: the identity for passphrases prompts later, when an opened
// snapshot needs a passphrase.
func (f *IdentityFlag) Identities(s command.IO) ([]age.Identity, error) {
	if f.made != nil {
		return f.made, nil
	}
	all := []age.Identity{}
	for _, file := range f.files {
		ids, err := agekeys.ReadIdentities(file)
		if err != nil {
			return nil, command.Usage(command.WithHint(fmt.Errorf("--identity: %w", err),
				"age-keygen makes such a file; name the one whose public key the snapshot was encrypted to"))
		}
		all = append(all, ids...)
	}
	f.made = append(all, &PassphraseIdentity{Ask: func(prompt string) (string, error) { return Passphrase(s, prompt) }})
	return f.made, nil
}

// openPath opens a store or snapshot for reading; its errors have hints. With signedBy, a snapshot must be signed with
// one of these keys.
func (f *IdentityFlag) openPath(
	ctx context.Context, s command.IO, path string, signedBy []minisign.PublicKey,
) (source.Source, error) {
	identities, err := f.Identities(s)
	if err != nil {
		return nil, err
	}
	encryption, err := f.Key.Encryption()
	if err != nil {
		return nil, err
	}
	src, err := source.Open(ctx, path, source.Options{
		Identities: identities, Encryption: encryption, SignedBy: signedBy,
		Waiting: func() { fmt.Fprintf(s.Err, "%s is held by %s; waiting\n", path, Holding(path)) },
	})
	if err != nil {
		return nil, f.OpenError(path, err)
	}
	if _, held := src.(*source.Client); held {
		f.Key.noteUnused(s, path)
	}
	return src, nil
}

// DescribePath opens a store or snapshot for reading and reads its status.
func (f *IdentityFlag) DescribePath(
	ctx context.Context, s command.IO, path string,
) (source.Source, source.Status, error) {
	src, err := f.openPath(ctx, s, path, nil)
	if err != nil {
		return nil, source.Status{}, err
	}
	status, err := src.Status(ctx)
	if err != nil {
		return nil, status, errors.Join(ReadError(path, err), src.Close())
	}
	return src, status, nil
}

// OpenError adds a hint to an error of opening a store or snapshot for reading.
func (f *IdentityFlag) OpenError(path string, err error) error {
	var passphrase passphraseError
	switch {
	case errors.As(err, &passphrase):
		return passphrase.error
	case errors.Is(err, snapshot.ErrIdentity) && len(f.files) == 0:
		return command.WithHint(fmt.Errorf("%s is encrypted to public keys, and no identity was given", path),
			"name the file of a secret key with --identity")
	case errors.Is(err, snapshot.ErrIdentity):
		return command.WithHint(fmt.Errorf("%s cannot be decrypted with the identities that were given", path),
			"name the file of the secret key that it was encrypted to with --identity")
	case errors.Is(err, snapshot.ErrDamaged):
		return command.WithHint(err, "%s", DamagedHint(path))
	case errors.Is(err, snapshot.ErrNewerFormat), errors.Is(err, snapshot.ErrNotSnapshot):
		// ErrNewerFormat and ErrNotSnapshot already say what to do.
		return err
	}
	return StoreError(path, err)
}

// SnapshotOnly returns the error for a snapshot at path that was given instead of a store. what completes the sentence
// "PATH is a snapshot, and".
func SnapshotOnly(path, what string) error {
	return command.WithHint(fmt.Errorf("%s is a snapshot, and %s", path, what),
		"make a store of it with: larder snapshot restore %s --store NEW.db", path)
}

// LeadingFile removes a file name before the resources from the arguments, and uses it as --from. It does so only if
// --from is not given and the argument cannot be a resource (see LooksLikeFile).
func (f *FromFlag) LeadingFile(args []string) []string {
	if f.Path != "" || len(args) == 0 || !LooksLikeFile(args[0]) {
		return args
	}
	if info, err := os.Stat(args[0]); os.Getenv(command.StoreVariable) != "" && (err != nil || !info.Mode().IsRegular()) {
		// If LARDER_STORE names the store and no file has this name, the argument is a resource whose group ends like a file
		// name.
		return args
	}
	f.Path = args[0]
	return args[1:]
}

// LooksLikeFile reports whether an argument is a path, or has the usual suffix of a store or snapshot.
func LooksLikeFile(arg string) bool {
	for _, prefix := range []string{"/", "./", "../"} {
		if strings.HasPrefix(arg, prefix) {
			return true
		}
	}
	return strings.HasSuffix(arg, ".db") || strings.HasSuffix(arg, snapshotSuffix)
}

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

// NamespacesOf returns the namespaces of the first objects that a query selects (see FirstKeys).
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

// CompleteKnown completes the names of well-known built-in resources. It needs no file and no server.
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
