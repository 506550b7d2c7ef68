package store

import (
	"context"
	"fmt"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/internal/hook"
	"github.com/larder-dev/larder/store/internal/changelog"
	"github.com/larder-dev/larder/store/internal/engine"
)

// dirtyLimit is the second bound of Collection.Backpressure, in uncommitted bytes of all collections together.
const dirtyLimit = 64 << 20

func dirtyLimitOf(h *hook.Hooks) int {
	if h == nil || h.DirtyLimit == 0 {
		return dirtyLimit
	}
	return h.DirtyLimit
}

// Commit describes an attempt to commit the dirty changes of one collection.
type Commit struct {
	// Objects is the number of objects written or removed; 0 after an error, or if only the resourceVersion changed.
	Objects int
	// Took is the duration of the attempt. One transaction commits the changes of all collections.
	Took time.Duration
	// Err is nil if the attempt succeeded. Otherwise the changes stay dirty, and the next attempt includes them.
	Err error
}

// Flush commits the dirty changes of all collections in one transaction. If the write fails the changes stay dirty, and
// the commit is retried in the background. A commit that has begun cannot be canceled: if ctx ends meanwhile Flush
// returns an error that wraps ErrStillWriting, and the commit goes on.
func (s *Store) Flush(ctx context.Context) error { return s.commits.Flush(ctx) }

// CommitErr returns the error of the last commit of dirty changes; nil if it succeeded. While a write has been running
// for more than ten seconds, the error wraps ErrSlowDisk.
func (s *Store) CommitErr() error {
	if err := s.commits.Err(); err != nil {
		return err
	}
	return s.file.SlowErr()
}

// Committed returns a channel that is closed after the next attempt to commit dirty changes, successful or not. It is
// also closed when CommitErr begins or ceases to return ErrSlowDisk, and when Close begins.
func (s *Store) Committed() <-chan struct{} { return s.commits.Progress() }

// Pending returns the approximate number of dirty bytes.
func (s *Store) Pending() int { return s.commits.Pending() }

// Backpressure waits while too many bytes are dirty in all collections of the store together. At each of two bounds, a
// collection waits only if its own dirty bytes are at least an equal share of the bound, so a busy collection does not
// hold up quiet ones. At twice the bound all collections wait.
//
//   - Twice Options.CommitBytes: the wait slows a writer to the pace of the disk. It ends with the commit, and at the
//     latest 5 seconds after the commit was due. After a failed commit there is no wait at this bound.
//   - 64 MiB: the wait ends when fewer bytes are dirty. If the last commit has failed, Backpressure returns its error.
//
// Once Close has begun Backpressure does not wait, and returns ErrClosed at the second bound.
func (c *Collection) Backpressure(ctx context.Context) error { return c.backpressure(ctx, true) }

func (c *Collection) backpressure(ctx context.Context, paced bool) error {
	return c.store.commits.Backpressure(ctx, member{c}, c.store.live.count, paced)
}

// reportDirty reports uncommitted changes to the commit loop. bytes is the growth of the memtable.
func (c *Collection) reportDirty(bytes int) { c.store.commits.Add(member{c}, bytes) }

type member struct{ c *Collection }

func (m member) Size() int { return m.c.read.Memtable.Size() }

func (m member) Drop() int { return m.c.read.Memtable.Drop() }

func (m member) Snapshot() engine.CommitSnapshot {
	snap := m.c.read.Memtable.Snapshot()
	if snap.Idle && !m.c.cursors.Dirty() {
		return nil
	}
	return &snapshot{c: m.c, MemtableSnapshot: snap}
}

// snapshot has the changes of one collection that one commit writes.
type snapshot struct {
	c *Collection
	*engine.MemtableSnapshot[engine.Covers]
	cursors  *changelog.Snapshot // cursors are the positions of the durable handlers in the transaction
	idledFor int64               // idledFor is stored in Collection.idledFor if the commit succeeds
}

func (s *snapshot) Prepare() { engine.CompressPayloads(s.c.compressor, s.Writes(false)) }

func (s *snapshot) Write(tx *bolt.Tx) error {
	w, err := engine.BeginWriter(tx, s.c.target())
	set, idled := s.c.in.Set.Load(), s.c.idledFor.Load()
	if s.idledFor = int64(set.Generation()) + 1; err == nil && s.idledFor != idled {
		err = w.Indexes.Idle(set, idled == 0)
	}
	if err == nil {
		s.cursors, err = w.Commit(s.MemtableSnapshot, s.c.Losses())
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
		s.c.read.Memtable.Correct(func(now engine.Covers) engine.Covers {
			if now.EndedList == s.Info.EndedList { // no other list has ended since the snapshot was taken
				now.EndedList = nil
			}
			return now
		})
	}
	shrunk, clean = s.c.read.Memtable.Committed(s.MemtableSnapshot)
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
