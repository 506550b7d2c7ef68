package input

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"aead.dev/minisign"
	"filippo.io/age"
	"github.com/spf13/cobra"

	"github.com/larder-dev/larder/internal/agekeys"
	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/internal/source"
	"github.com/larder-dev/larder/snapshot"
)

// FromFlag is --from, which every reading command needs, and what opens an encrypted snapshot.
type FromFlag struct {
	Path string
	// SignedBy are public keys, of which one must have signed a snapshot that is read by Open. No flag sets it.
	SignedBy []minisign.PublicKey
	IdentityFlag
}

// Add adds the flag, and those of IdentityFlag.
func (f *FromFlag) Add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.Path, "from", "",
		"the `FILE` to read: a store, also while larder sync holds it, or a snapshot (required, or "+command.StoreVariable+
			")")
	f.IdentityFlag.Add(cmd)
}

// Check takes the variable for a flag that is not given, and fails without both.
func (f *FromFlag) Check() error {
	if f.Path = command.OrVariable(f.Path); f.Path == "" {
		return command.Required("from")
	}
	return nil
}

// Open opens what --from names for reading.
func (f *FromFlag) Open(ctx context.Context, s command.IO) (source.Source, error) {
	return f.openPath(ctx, s, f.Path, f.SignedBy)
}

// Described opens it, with its status.
func (f *FromFlag) Described(ctx context.Context, s command.IO) (source.Source, source.Status, error) {
	return f.DescribePath(ctx, s, f.Path)
}

// IdentityFlag is --identity, and with it --key-file: what opens what is encrypted. A passphrase is not a flag: others
// would see it.
type IdentityFlag struct {
	files []string
	Key   KeyFlag
	// made are the identities, once they have been asked for: a passphrase is asked for once, also for two files.
	made []age.Identity
}

// Add adds the flags.
func (f *IdentityFlag) Add(cmd *cobra.Command) {
	f.Key.AddAs(cmd, "the `FILE` of the keys that open what is sealed in a store. Default is what "+KeyVariable+
		" holds; without keys names can be read, and what is not sealed")
	f.AddIdentity(cmd)
}

// AddIdentity adds --identity alone, for commands that read snapshots only.
func (f *IdentityFlag) AddIdentity(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&f.files, "identity", nil,
		"a `FILE` of age identities or an ssh key that decrypts a snapshot; may be given again. A passphrase is asked "+
			"for, or taken from "+PassphraseVariable)
}

// Given reports whether there is anything that decrypts a snapshot, without asking for it.
func (f *IdentityFlag) Given() bool { return len(f.files) > 0 || os.Getenv(PassphraseVariable) != "" }

// Identities reads the files. A passphrase is asked for when a snapshot needs it, not before.
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

// openPath opens a store or snapshot for reading; its error says what to do. With signedBy a snapshot must be signed by
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

// DescribePath opens a store or snapshot for reading, with its status.
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

// OpenError adds to an error of opening a store or snapshot for reading what to do.
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
	case errors.Is(err, snapshot.ErrNewerFormat), errors.Is(err, snapshot.ErrNotSnapshot): // which say it all
		return err
	}
	return StoreError(path, err)
}

// SnapshotOnly is the error for a snapshot where a store is needed.
func SnapshotOnly(path, what string) error {
	return command.WithHint(fmt.Errorf("%s is a snapshot, and %s", path, what),
		"make a store of it with: larder snapshot restore %s --store NEW.db", path)
}

// LeadingFile takes a file that stands before the resources, and returns those. It is taken where --from names none and
// the argument can be no resource: it is a path, or a file that is called as stores and snapshots are.
func (f *FromFlag) LeadingFile(args []string) []string {
	if f.Path != "" || len(args) == 0 || !LooksLikeFile(args[0]) {
		return args
	}
	if info, err := os.Stat(args[0]); os.Getenv(command.StoreVariable) != "" && (err != nil || !info.Mode().IsRegular()) {
		return args // a resource of a group that is called so
	}
	f.Path = args[0]
	return args[1:]
}

// LooksLikeFile reports whether an argument can be no resource: it is a path, or called as stores and snapshots are.
func LooksLikeFile(arg string) bool {
	for _, prefix := range []string{"/", "./", "../"} {
		if strings.HasPrefix(arg, prefix) {
			return true
		}
	}
	return strings.HasSuffix(arg, ".db") || strings.HasSuffix(arg, snapshotSuffix)
}
