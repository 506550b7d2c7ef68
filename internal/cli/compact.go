package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/realpath"
	"github.com/larder-dev/larder/internal/source"
	"github.com/larder-dev/larder/store"
	"github.com/larder-dev/larder/store/seal"
)

func newCompact(s IO) *cobra.Command {
	var file storeFlag
	var key keyFlag
	var rekey bool
	cmd := &cobra.Command{
		Use:   "compact [FILE] [--rekey]",
		Short: "Write a store anew without its free space",
		Long: `Write a store anew without its free space: after many deletes most of a file may be free, and every commit
writes the list of it. larder status shows how much is free.

A running sync does it itself when it is asked, and goes on. The store is checked first; a damaged one is left as it is.

What is sealed is copied as it is: no key is needed. One that is given must fit.

With --rekey everything that is to be sealed is sealed anew, under the current key: what was sealed under others, and
Secrets that were stored in plain text before there was a key. The other keys are needed no more then. A running sync
does it with its own keys: it reads the file of them again, and refuses if the current key is not the one that is
given here.

There must be room for a second copy beside the file until it is done. If it is killed the file is as it was, or
compact.`,
		Args: maxOneFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := onlyFile(&file.path, "store", args); err != nil {
				return err
			}
			if err := file.check(); err != nil {
				return usageError{err}
			}
			do, err := compactor(s, &key, rekey)
			if err != nil {
				return err
			}
			return runCompact(cmd.Context(), s, file.path, do)
		},
		ValidArgsFunction: completeFile,
	}
	file.add(cmd)
	key.addAs(cmd, "the `FILE` of the keys of the store, the current one first. Default is what "+keyVariable+
		" holds; only --rekey needs them")
	cmd.Flags().BoolVar(&rekey, "rekey", false,
		"seal everything anew under the current key, of --key-file or "+keyVariable)
	return cmd
}

// compaction is how a store is compacted: a file that nobody holds, and by the sync that does.
type compaction struct {
	rekey bool // everything is sealed anew
	file  func(ctx context.Context, path string) (store.Compacted, error)
	sync  func(ctx context.Context, path string, sync *source.Client) (store.Compacted, error)
}

// compactor returns what is done with keys, or without.
func compactor(s IO, key *keyFlag, rekey bool) (compaction, error) {
	encryption, err := key.encryption()
	if err != nil {
		return compaction{}, err
	}
	o := store.Options{Encryption: encryption}
	if !rekey {
		return compaction{
			file: func(ctx context.Context, path string) (store.Compacted, error) {
				if err := fits(ctx, path, encryption); err != nil {
					return store.Compacted{}, err
				}
				return store.Compact(ctx, path, o)
			},
			sync: func(ctx context.Context, path string, sync *source.Client) (store.Compacted, error) {
				key.noteUnused(s, path)
				return sync.Compact(ctx)
			},
		}, nil
	}
	return compaction{
		rekey: true,
		file: func(ctx context.Context, path string) (store.Compacted, error) {
			if encryption == nil {
				if held(path) { // by a sync, perhaps, which has the keys
					return store.Compacted{}, store.ErrLocked
				}
				return store.Compacted{},
					usageError{withHint(fmt.Errorf("%s cannot be sealed without a key", path),
						"name its file with --key-file; "+makeKey)}
			}
			return store.Rekey(ctx, path, o)
		},
		sync: func(ctx context.Context, _ string, sync *source.Client) (store.Compacted, error) {
			id := ""
			if encryption != nil {
				if id, err = encryption.Keys.CurrentKey(ctx); err != nil {
					return store.Compacted{}, err
				}
			}
			return sync.Rekey(ctx, id)
		},
	}, nil
}

// fits fails with seal.ErrWrongKey if keys are given that do not open the store. To compact it they are not needed:
// what is sealed is copied as it is.
func fits(ctx context.Context, path string, keys *seal.Encryption) error {
	if keys == nil {
		return nil
	}
	st, err := store.OpenContext(ctx, path, store.Options{ReadOnly: true, LockTimeout: -1, Encryption: keys})
	if err == nil {
		return st.Close()
	}
	if errors.Is(err, seal.ErrWrongKey) {
		return err
	}
	return nil // whoever compacts it says what is wrong
}

// held reports whether another process has the file open for writing.
func held(path string) bool {
	st, err := store.Open(path, store.Options{ReadOnly: true, LockTimeout: -1})
	if err == nil {
		_ = st.Close() // it was only read
	}
	return errors.Is(err, store.ErrLocked)
}

func runCompact(ctx context.Context, s IO, path string, do compaction) error {
	idle := s.busy("compacting")
	done, err := compact(ctx, path, do)
	idle()
	if err != nil {
		return ifInterrupted(ctx, compactError(path, err), "the file is as it was")
	}
	_, err = fmt.Fprintf(s.Out, "%s: %s before, %s after\n", path, size(done.Before), size(done.After))
	if do.rekey {
		noteDamagedCopies(ctx, s, path)
	}
	return err
}

// noteDamagedCopies names the copies of a store that were moved aside when it was damaged, and may hold in plain text
// what is sealed in the store now.
func noteDamagedCopies(ctx context.Context, s IO, path string) {
	file, err := fileAt(path)
	if err == nil {
		err = eachDamagedCopy(file, func(name string) {
			if what := plainTextIn(ctx, s, name, path); what != "" {
				fmt.Fprintf(s.Err, "note: %s, which was moved aside since it was damaged, %s; remove it if it is of no more use\n",
					name, what)
			}
		})
	}
	if err != nil {
		fmt.Fprintf(s.Err, "note: %s is sealed now; copies that were moved aside when it was damaged "+
			"may hold plain text, and could not be looked for: %v\n", path, err)
	}
}

// fileAt returns path, or, if that is a symbolic link, where it leads to: what is beside a store is beside its file.
func fileAt(path string) (string, error) {
	info, err := os.Lstat(path)
	if err != nil || info.Mode()&fs.ModeSymlink == 0 {
		return path, err
	}
	return realpath.Of(path)
}

// eachDamagedCopy calls fn with the name of each copy of a store's file that was moved aside when it was damaged.
func eachDamagedCopy(file string, fn func(name string)) error {
	entries, err := os.ReadDir(filepath.Dir(file))
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), filepath.Base(file)+".damaged-") {
			fn(filepath.Join(filepath.Dir(file), e.Name()))
		}
	}
	return err
}

// plainTextIn says what a copy of the store at path has in plain text of what is sealed there; "" if nothing.
func plainTextIn(ctx context.Context, s IO, copied, path string) string {
	const may = "may hold in plain text what is sealed now"
	sealed, err := storedIn(ctx, s, path)
	if err != nil {
		return may
	}
	all, err := storedIn(ctx, s, copied)
	if err != nil {
		return may
	}
	var names []string
	for _, c := range all {
		now := slices.ContainsFunc(sealed, func(o source.Collection) bool {
			return o.Sealed &&
				o.GVR().GroupResource() == c.GVR().GroupResource()
		})
		if now && (c.PlainText || !c.Sealed && c.Objects > 0) {
			names = append(names, label(c))
		}
	}
	if len(names) == 0 {
		return ""
	}
	return "holds in plain text what is sealed now: " + strings.Join(names, ", ")
}

// storedIn are the collections of a file, or of the sync that holds it.
func storedIn(ctx context.Context, s IO, path string) ([]source.Collection, error) {
	file := fromFlag{path: path}
	src, err := file.open(ctx, s)
	if err != nil {
		return nil, err
	}
	defer func() { _ = src.Close() }() // it was only read
	st, err := src.Status(ctx)
	return st.Collections, err
}

// compact compacts the file, or has the sync that holds it do it.
func compact(ctx context.Context, path string, do compaction) (store.Compacted, error) {
	done, err := do.file(ctx, path)
	if !errors.Is(err, store.ErrLocked) {
		return done, err
	}
	socket, socketErr := source.SocketPath(path)
	if socketErr != nil {
		return done, err
	}
	client, _, dialErr := source.Dial(ctx, socket)
	if dialErr != nil {
		return done, err
	}
	defer func() { _ = client.Close() }() // nothing is left to say
	return do.sync(ctx, path, client)
}

// compactError adds what to do.
func compactError(path string, err error) error {
	switch {
	case wrongPlace(path) != nil:
		return wrongPlace(path)
	case errors.Is(err, fs.ErrNotExist) && !exists(path):
		return withHint(fmt.Errorf("no store at %s", path), "name the file of a store with --store")
	case missing(path):
		return emptyError(path)
	case errors.Is(err, store.ErrLocked):
		return withHint(fmt.Errorf("%s is held by %s", path, holding(path)),
			"wait until it is done or stop it; only a larder sync compacts its file while it runs")
	case errors.Is(err, store.ErrNoSpace):
		return withHint(err, "make room on that disk; the file is as it was")
	case errors.Is(err, entry.ErrDamaged):
		return withHint(err,
			"the file is as it was; larder check --from %s lists what is damaged, and the next larder sync repairs it", path)
	case errors.Is(err, syscall.EROFS):
		return withHint(err,
			"the copy is made beside the file, and that file system is read-only: mount it for writing, or copy the file to "+
				"another one")
	case errors.Is(err, fs.ErrPermission) && exists(path):
		return withHint(err, "the copy is made beside the file: run as the user who may write to it and to its directory")
	}
	return pathError(path, err)
}
