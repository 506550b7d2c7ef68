package store

import (
	"context"
	"fmt"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/internal/hook"
	"github.com/larder-dev/larder/store/internal/changelog"
	"github.com/larder-dev/larder/store/internal/commit"
	"github.com/larder-dev/larder/store/internal/memtable"
	"github.com/larder-dev/larder/store/internal/state"
	"github.com/larder-dev/larder/store/internal/write"
)

// dirtyLimit is the number of uncommitted bytes, of all collections together, at which writers wait until there are
// fewer: the second bound of Collection.Backpressure.
const dirtyLimit = 64 << 20

func dirtyLimitOf(h *hook.Hooks) int {
	if h == nil || h.DirtyLimit == 0 {
		return dirtyLimit
	}
	return h.DirtyLimit
}

// Commit describes an attempt to commit the dirty changes of one collection. The transaction also has the dirty changes
// of the other collections.
type Commit struct {
	// Objects is how many objects were written or removed; 0 if only the resourceVersion changed, or if it failed.
	Objects int
	// Took is how long the attempt took, for all collections together.
	Took time.Duration
	// Err is nil if the attempt succeeded. If it failed the changes stay dirty, and the next attempt includes them.
	Err error
}

// Flush commits the dirty changes of all collections in one transaction, and returns once they are in the file. If the
// write fails the changes stay dirty, and the commit is retried in the background. A commit that has begun cannot be
// canceled: if ctx ends meanwhile Flush returns an error that wraps ErrStillWriting, and the commit goes on.
func (s *Store) Flush(ctx context.Context) error { return s.commits.Flush(ctx) }

// CommitErr returns the error of the last commit of dirty changes; nil if it succeeded. While a write has been running
// for more than ten seconds, CommitErr returns an error that wraps ErrSlowDisk.
func (s *Store) CommitErr() error {
	if err := s.commits.Err(); err != nil {
		return err
	}
	return s.file.SlowErr()
}

// Committed returns a channel that is closed after the next attempt to commit dirty changes, successful or not. It is
// also closed when CommitErr begins or ceases to return ErrSlowDisk, and when Close begins.
func (s *Store) Committed() <-chan struct{} { return s.commits.Progress() }

// Pending returns about how many bytes of changes are dirty.
func (s *Store) Pending() int { return s.commits.Pending() }

// Backpressure waits while too many bytes are dirty. Two bounds apply to the dirty bytes of all collections of the
// store together. At a bound a collection waits only if its own dirty bytes are at least an equal share of the bound,
// so a busy collection does not hold up the quiet ones. At twice the bound all collections wait.
//
//   - Twice Options.CommitBytes: the collection waits for the commit, so that a writer that is faster than the disk is
//     slowed to the disk's pace. It waits until 5 seconds after the commit was due at most, and not if the last commit
//     failed: a disk that hangs or fails does not stop it at this bound.
//   - 64 MiB: it waits until fewer bytes are dirty. If the last commit has failed, it returns that error at once.
//
// Once the store is being closed Backpressure does not wait, and returns ErrClosed at the second bound.
func (c *Collection) Backpressure(ctx context.Context) error { return c.backpressure(ctx, true) }

func (c *Collection) backpressure(ctx context.Context, paced bool) error {
	return c.store.commits.Backpressure(ctx, member{c}, c.store.live.count, paced)
}

// reportDirty reports to the commit loop that the memtable has uncommitted changes, and has grown by that many bytes.
func (c *Collection) reportDirty(bytes int) { c.store.commits.Add(member{c}, bytes) }

// member implements commit.Member: through it the commit loop accesses a Collection.
type member struct{ c *Collection }

func (m member) Size() int { return m.c.read.Memtable.Size() }

func (m member) Drop() int { return m.c.read.Memtable.Drop() }

func (m member) Snapshot() commit.Snapshot {
	snap := m.c.read.Memtable.Snapshot()
	if snap.Idle && !m.c.cursors.Dirty() {
		return nil
	}
	return &snapshot{c: m.c, Snapshot: snap}
}

// snapshot holds the changes of one collection that one commit writes.
type snapshot struct {
	c *Collection
	*memtable.Snapshot[state.Covers]
	cursors  *changelog.Snapshot // cursors that the transaction has written
	idledFor int64               // Collection.idledFor after this commit: identifies the index functions
}

func (s *snapshot) Prepare() { write.Compress(s.c.compressor, s.Writes(false)) }

func (s *snapshot) Write(tx *bolt.Tx) error {
	w, err := write.Begin(tx, s.c.target())
	set, idled := s.c.in.Set.Load(), s.c.idledFor.Load()
	if s.idledFor = int64(set.Generation()) + 1; err == nil && s.idledFor != idled {
		err = w.Indexes.Idle(set, idled == 0)
	}
	if err == nil {
		s.cursors, err = w.Commit(s.Snapshot, s.c.Losses())
	}
	if err != nil {
		return fmt.Errorf("%s: %w", s.c.id, err)
	}
	return nil
}

func (s *snapshot) Done(err error) (shrunk int, clean bool) {
	s.c.cursors.Written(s.cursors, err)
	if err != nil {
		return 0, false
	}
	s.c.idledFor.Store(s.idledFor)
	if !s.Idle {
		s.c.recorded.Store(s.Info.Timeline)
		s.c.read.Memtable.Correct(func(now state.Covers) state.Covers {
			if now.EndedList == s.Info.EndedList { // no other list has ended since the snapshot was taken
				now.EndedList = nil
			}
			return now
		})
	}
	shrunk, clean = s.c.read.Memtable.Committed(s.Snapshot)
	return shrunk, clean && !s.c.cursors.Dirty()
}

func (s *snapshot) Notify(took time.Duration, err error) {
	if s.c.committed == nil {
		return
	}
	done := Commit{Took: took, Err: err}
	if err == nil {
		done.Objects = s.Len()
	}
	s.c.committed(done)
}
