package file

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/base"
	"github.com/larder-dev/larder/internal/cli/command"
	"github.com/larder-dev/larder/internal/cli/input"
	"github.com/larder-dev/larder/internal/source"
	"github.com/larder-dev/larder/store"
	"github.com/larder-dev/larder/store/seal"
)

// NewCompact returns larder compact.
func NewCompact(s command.IO) *cobra.Command {
	var file command.StoreFlag
	var key input.KeyFlag
	var rekey bool
	cmd := &cobra.Command{
		Use:   "compact [FILE] [--rekey]",
		Short: "Rewrite a store without its free space",
		Long: `Rewrite a store without its free space. After many deletes most of a file may be free, and every
commit writes the list of free pages. larder status shows how much is free.

A running sync compacts its file on request, and keeps running. The store is checked first; a damaged one is not
changed.

Sealed records are copied unchanged; no key is needed.

With --rekey, everything that the store seals is sealed again with the current key: records sealed with other keys,
and Secrets that were stored in plain text before there was a key. The other keys are not needed afterwards. A running
sync uses its own keys: it rereads its key file, and refuses if its current key is not the one given here.

Compaction needs free space for a second copy beside the file. If it is killed, the file is either unchanged or
compacted.`,
		Args: command.MaxOneFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := command.OnlyFile(&file.Path, "store", args); err != nil {
				return err
			}
			if err := file.Check(); err != nil {
				return command.Usage(err)
			}
			c := compaction{path: file.Path, rekey: rekey}
			switch {
			case rekey:
				var err error
				if c.keys, err = key.Encryption(); err != nil {
					return err
				}
			case key.File != "":
				return command.Usagef("--key-file is for --rekey: without it, what is sealed is copied as it is")
			}
			return c.run(cmd.Context(), s)
		},
		ValidArgsFunction: command.CompleteFile,
	}
	file.Add(cmd)
	key.AddAs(cmd, "the `FILE` of the keys of the store, the current one first. Default is the value of "+
		input.KeyVariable+
		"; for --rekey")
	cmd.Flags().BoolVar(&rekey, "rekey", false,
		"seal everything again with the current key, of --key-file or "+input.KeyVariable)
	return cmd
}

type compaction struct {
	path  string
	rekey bool             // rekey encrypts all confidential data again, with the current key
	keys  *seal.Encryption // keys are the keys for rekey; nil if the user has given none
}

// inFile compacts the file, or encrypts it again, in this process. It fails with store.ErrLocked if another process has
// the file open.
func (c compaction) inFile(ctx context.Context) (store.Compacted, error) {
	switch {
	case !c.rekey:
		return store.Compact(ctx, c.path, store.Options{})
	case c.keys != nil:
		return store.Rekey(ctx, c.path, store.Options{Encryption: c.keys})
	case held(c.path): // the process that has the file open may be a sync, which has the keys
		return store.Compacted{}, store.ErrLocked
	}
	return store.Compacted{}, command.Usage(command.WithHint(fmt.Errorf("%s cannot be sealed without a key", c.path),
		"name its file with --key-file; "+input.MakeKey))
}

// bySync makes the sync that has the file open compact it or encrypt it again, with the sync's keys.
func (c compaction) bySync(ctx context.Context, sync *source.Client) (store.Compacted, error) {
	if !c.rekey {
		return sync.Compact(ctx)
	}
	id := ""
	if c.keys != nil {
		var err error
		if id, err = c.keys.Keys.CurrentKey(ctx); err != nil {
			return store.Compacted{}, err
		}
	}
	return sync.Rekey(ctx, id)
}

func held(path string) bool {
	st, err := store.Open(path, store.Options{ReadOnly: true, LockTimeout: -1})
	if err == nil {
		_ = st.Close()
	}
	return errors.Is(err, store.ErrLocked)
}

func (c compaction) run(ctx context.Context, s command.IO) error {
	idle := s.Busy("compacting")
	done, err := c.do(ctx)
	idle()
	if err != nil {
		return command.IfInterrupted(ctx, compactError(c.path, err), "the file is as it was")
	}
	_, err = fmt.Fprintf(s.Out, "%s: %s before, %s after\n", c.path, command.Size(done.Before), command.Size(done.After))
	if c.rekey {
		noteDamagedCopies(s, c.path)
	}
	return err
}

func (c compaction) do(ctx context.Context) (store.Compacted, error) {
	done, err := c.inFile(ctx)
	if !errors.Is(err, store.ErrLocked) {
		return done, err
	}
	client, _, dialErr := source.Dial(ctx, c.path)
	switch {
	case errors.Is(dialErr, source.ErrOtherVersion):
		return done, dialErr
	case dialErr != nil:
		return done, err
	}
	defer func() { _ = client.Close() }()
	return c.bySync(ctx, client)
}

// noteDamagedCopies prints the damaged copies of a store that a sync has moved aside, because compact --rekey does not
// encrypt these copies again.
func noteDamagedCopies(s command.IO, path string) {
	file, err := fileAt(path)
	var entries []os.DirEntry
	if err == nil {
		entries, err = os.ReadDir(filepath.Dir(file))
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), filepath.Base(file)+".damaged-") {
			fmt.Fprintf(s.Err, "note: %s, which was moved aside since it was damaged, may hold in plain text what is sealed "+
				"now; remove it if it is of no more use\n", filepath.Join(filepath.Dir(file), e.Name()))
		}
	}
	if err != nil {
		fmt.Fprintf(s.Err, "note: %s is sealed now; copies that were moved aside when it was damaged "+
			"may hold plain text, and could not be looked for: %v\n", path, err)
	}
}

// fileAt returns path, or the target of a symbolic link at path: the files that belong to a store are in the target's
// directory.
func fileAt(path string) (string, error) {
	info, err := os.Lstat(path)
	if err != nil || info.Mode()&fs.ModeSymlink == 0 {
		return path, err
	}
	return base.RealPath(path)
}

func compactError(path string, err error) error {
	switch {
	case input.CheckPath(path) != nil: // PathError, called below, explains an unusable path
	case errors.Is(err, fs.ErrNotExist) && !input.Exists(path):
		return command.WithHint(fmt.Errorf("no store at %s", path), "name the file of a store with --store")
	case input.Missing(path):
		return input.EmptyError(path)
	case errors.Is(err, store.ErrLocked):
		return command.WithHint(command.Reworded(err, "%s is held by %s", path, input.Holding(path)),
			"wait until it is done or stop it; only a larder sync compacts its file while it runs")
	case errors.Is(err, store.ErrNoSpace):
		return command.WithHint(err, "make room on that disk; the file is as it was")
	case errors.Is(err, entry.ErrDamaged):
		return command.WithHint(err,
			"the file is as it was; larder check --from %s lists what is damaged, and the next larder sync repairs it", path)
	case errors.Is(err, syscall.EROFS):
		return command.WithHint(err,
			"the copy is made beside the file, and that file system is read-only: mount it for writing, or copy the file to "+
				"another one")
	case errors.Is(err, fs.ErrPermission) && input.Exists(path):
		return command.WithHint(err,
			"the copy is made beside the file: run as the user who may write to it and to its directory")
	}
	return input.PathError(path, err)
}
