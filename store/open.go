package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

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
		Interval: o.commitInterval(), Bytes: o.CommitBytes, Limit: dirtyLimitOf(o.Hooks), AtOnce: o.atOnce,
	})
	of := boltfile.Options{
		ReadOnly: o.ReadOnly, LockTimeout: o.lockTimeout(), MaxSize: o.MaxSize, PageSize: o.newPageSize(), Logger: o.Logger,
		DropStep: o.dropStep, WriteFailed: s.writeFailed, Slow: s.commits.MadeProgress,
		Unlock: func(ctx context.Context, h *boltfile.Handle) error { return s.keys.Unlock(ctx, h.View, !o.ReadOnly) },
		Copy: func(ctx context.Context, old *boltfile.Handle, salvage bool) (*boltfile.Handle, error) {
			c := s.copier(nil)
			c.Salvage = salvage
			fresh, err := c.Copy(ctx, old)
			for name, reason := range c.Lost {
				if salvage {
					s.logger().Error(reason, "A collection has lost unreadable records, and must be listed", "collection", name)
				}
			}
			return fresh, err
		},
	}
	if o.Hooks != nil {
		of.Hooks = *o.Hooks
	}
	s.file = boltfile.New(path, of)
	s.commits.File = s.file
	return s
}

// writeFailed drops tombstones after ErrNoSpace, to free pages, before boltfile.File admits the next writer.
func (s *Store) writeFailed(w boltfile.Work, err error) {
	if errors.Is(err, ErrNoSpace) && !w.Frees {
		for _, c := range s.live.list() {
			c.core.TrimForSpace()
		}
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

// ending is the progress of Store.Close.
type ending struct {
	begin sync.Once
	begun chan struct{}
	done  chan struct{}
	err   error // err is the result of Close; it is set before done is closed
}

func newEnding() ending { return ending{begun: make(chan struct{}), done: make(chan struct{})} }

// Closing returns a channel that is closed when Close is called.
func (s *Store) Closing() <-chan struct{} { return s.ending.begun }

// Close waits for the background work, commits the dirty changes, marks the file as cleanly closed and closes it. A
// second call does nothing. Calls that wait for backpressure (Apply, Backpressure) fail with ErrClosed at once.
//
// If the disk has not finished a write after ten seconds, Close returns an error that wraps ErrStillWriting. Closing
// continues in the background, and this process keeps the file locked until the write ends.
func (s *Store) Close() error {
	first := false
	s.ending.begin.Do(func() {
		first = true
		close(s.ending.begun)
		go func() {
			defer close(s.ending.done)
			s.ending.err = s.end()
		}()
	})
	if err := s.file.Await(s.ending.done); err != nil {
		return fmt.Errorf("close the store %s: %w", s.file.Path, err)
	}
	if !first {
		return nil
	}
	return s.ending.err
}

func (s *Store) end() error {
	s.refuseWrites()
	s.file.CloseBackground()
	flushed := s.flushAtClose()
	if release, err := s.commits.LockFlush(context.Background()); err == nil {
		release() // LockFlush has waited for a running Flush, even if its caller has given up, and the Committed callbacks
	}
	release, err := s.file.TakeWriter(context.Background(), boltfile.Closing)
	if err != nil {
		return err
	}
	defer release()
	switch err := s.Err(); {
	case flushed != nil:
	case errors.Is(err, ErrOverwritten):
		flushed = fmt.Errorf("close the store %s: %w", s.file.Path, err)
	case err == nil:
		if err := s.file.KeepName(context.Background()); err != nil && !errors.Is(err, ErrClosed) {
			flushed = fmt.Errorf("close the store %s: %w", s.file.Path, err)
		}
	}
	s.commits.EndReads()
	stuck, err := s.file.Close()
	if !stuck {
		s.keys.Wipe() // no transaction that needs the data keys is left
	}
	if err != nil {
		return fmt.Errorf("close the store %s: %w", s.file.Path, err)
	}
	return flushed
}

// refuseWrites makes the open collections refuse writes, and their cursors refuse acknowledgements. When it returns,
// every accepted change is in a memtable or committed.
func (s *Store) refuseWrites() {
	s.commits.Close()
	for _, c := range s.live.list() {
		c.core.RefuseWrites()
	}
}

// flushAtClose commits the dirty changes. A failure does no harm: the server sends the lost changes again.
func (s *Store) flushAtClose() error {
	if !s.commits.Dirty() {
		return nil
	}
	if err := s.Flush(context.Background()); err != nil {
		return fmt.Errorf(
			"close the store %s: its latest changes are not in the file, and the next start will ask the server for them: %w",
			s.file.Path, err)
	}
	return nil
}

// Close commits the dirty changes, ends the background work of the collection and lets it be opened again. Apply then
// fails with ErrClosed. Reads work until the store is closed, but the history ends (history.Window.End). If the commit
// fails, the file lacks changes, which the server sends again. If the disk does not finish within ten seconds, Close
// returns an error that wraps ErrStillWriting, and the collection cannot be opened until Close ends in the background.
func (c *Collection) Close() error {
	if c.ending.Swap(true) {
		return nil
	}
	var lost error
	done := make(chan struct{})
	go func() {
		defer close(done)
		lost = c.end()
	}()
	if err := c.store.file.Await(done); err != nil {
		c.claimed.GiveUp()
		return fmt.Errorf("close %s: %w", c.core.ID, err)
	}
	return lost
}

func (c *Collection) end() error {
	err := c.core.Close()
	c.store.live.remove(c)
	c.store.open.Release(c.core.Read.Name)
	return err
}
