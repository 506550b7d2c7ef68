package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/internal/hook"
	"github.com/larder-dev/larder/internal/limiter"
	"github.com/larder-dev/larder/store/internal/boltfile"
	"github.com/larder-dev/larder/store/internal/check"
	"github.com/larder-dev/larder/store/internal/engine"
	"github.com/larder-dev/larder/store/internal/format"
)

// FormatVersion is the version of the file format that this package writes.
const FormatVersion = format.Version

// LeastMaxSize is the smallest Options.MaxSize that takes effect. A new file grows by 4 MiB at a time.
const LeastMaxSize = boltfile.AllocSize + 1<<20

// Open opens the store at path. If there is none it creates one, with its directory. A symbolic link is followed once
// and never replaced; if its target is missing the store is created there, in a directory that must exist. A file that
// is damaged, or whose data keys are damaged, is moved aside (see Quarantined), and a new one is created.
//
// Open fails with ErrLocked while another process, or another Store of this process, has locked the file (readers share
// their lock), with ErrNewerFormat if a newer program wrote the file, with ErrForeign if it is not a store, and with
// seal.ErrWrongKey if Options.Encryption cannot unwrap its data keys. It does not change the file then.
//
// With Options.ReadOnly Open changes nothing on the disk, and fails if the file is missing or damaged (ErrDamaged).
func Open(path string, o Options) (*Store, error) { return OpenContext(context.Background(), path, o) }

// OpenContext is Open with a context, for a long Options.LockTimeout, as in a rolling update. It fails with the cause
// of ctx if ctx ends before the file is locked. After that only the KeyProvider uses ctx.
func OpenContext(ctx context.Context, path string, o Options) (*Store, error) {
	if path == "" {
		return nil, errors.New("open the store: the path is empty; name the file to open or to make")
	}
	s := newStore(path, o)
	if err := s.keys.Fetch(ctx, o.Encryption, s.logger()); err != nil {
		return nil, fmt.Errorf("open the store %s: %w", path, err)
	}
	if err := s.file.Open(ctx); err != nil {
		return nil, fmt.Errorf("open the store %s: %w", path, err)
	}
	s.startUpkeep()
	return s, nil
}

// newStore returns a Store whose file is not open yet.
func newStore(path string, o Options) *Store {
	s := &Store{o: o, limiter: limiter.New(), ending: newEnding(), live: newLiveSet()}
	s.commits = engine.NewCommitLoop(engine.CommitOptions{
		Interval: o.commitInterval(), Enough: s.commitBytes, Limit: dirtyLimitOf(o.Hooks),
	})
	of := boltfile.Options{
		ReadOnly: o.ReadOnly, LockTimeout: o.lockTimeout(), MaxSize: o.MaxSize, PageSize: o.newPageSize(), Logger: o.Logger,
		DropStep: o.dropStep, WriteFailed: s.writeFailed, Slow: s.commits.MadeProgress,
		Unlock: func(ctx context.Context, h *boltfile.Handle) error { return s.keys.Unlock(ctx, h.View, !o.ReadOnly) },
		Copy: func(ctx context.Context, old *boltfile.Handle) (*boltfile.Handle, error) {
			return s.copier(nil).Copy(ctx, old)
		},
	}
	if h := o.Hooks; h != nil {
		of.Wall, of.Commit = h.Wall, commitHook(h)
	}
	s.file = boltfile.New(path, of)
	s.commits.File = s.file
	return s
}

func commitHook(h *hook.Hooks) func(tx *bolt.Tx) error {
	if h.Commit == nil {
		return nil
	}
	return func(tx *bolt.Tx) error { return h.Commit(tx.Commit) }
}

// writeFailed drops tombstones after ErrNoSpace, to free pages, before boltfile.File admits the next writer.
func (s *Store) writeFailed(w boltfile.Work, err error) {
	if errors.Is(err, ErrNoSpace) && !w.Frees {
		s.trimForSpace()
	}
}

// verifyIdentity checks every ten seconds whether another file has been copied over the open file (ErrOverwritten).
func (s *Store) verifyIdentity(ctx context.Context) {
	interval := 10 * time.Second
	if h := s.o.Hooks; h != nil && h.IdentityInterval > 0 {
		interval = h.IdentityInterval
	}
	s.file.VerifyIdentity(ctx, interval)
}

func (s *Store) startUpkeep() {
	if s.ReadOnly() {
		return
	}
	check.Unverified(s.checked(check.BackgroundRate))
	s.file.Go("verify the identity of the file", s.verifyIdentity)
}
