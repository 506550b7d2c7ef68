package engine

import (
	"fmt"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/store/internal/changelog"
)

// Commit describes an attempt to commit the changes of one collection; see store.Commit.
type Commit struct {
	Objects int
	Took    time.Duration
	Err     error
}

// commit has the changes of one collection that one transaction writes. The CommitLoop calls prepare, write, done and
// notify, in this order. After an unknown outcome it calls done and notify again once the outcome is known.
type commit struct {
	c *Collection
	*MemtableSnapshot[Covers]
	cursors  *changelog.Snapshot // cursors are the positions of the durable handlers in the transaction.
	idledFor int64               // idledFor is stored in Collection.idledFor if the commit succeeds.
	repaired []string            // repaired is Writer.Repaired.
}

// beginCommit returns the collection's uncommitted changes, or nil.
func (c *Collection) beginCommit() *commit {
	snap := c.Read.Memtable.Snapshot()
	if snap.Idle && !c.cursors.Dirty() {
		return nil
	}
	return &commit{c: c, MemtableSnapshot: snap}
}

// prepare does the work of the commit that needs no transaction.
func (s *commit) prepare() { CompressPayloads(s.c.Compressor, s.Writes(false)) }

func (s *commit) write(tx *bolt.Tx) error {
	w, err := BeginWriter(tx, s.c.target())
	set, idled := s.c.Set.Load(), s.c.idledFor.Load()
	if s.idledFor = int64(set.Generation()) + 1; err == nil && s.idledFor != idled {
		err = w.Indexes.Idle(set, idled == 0)
	}
	if err == nil {
		s.cursors, err = w.Commit(s.MemtableSnapshot)
		s.repaired = w.Repaired
	}
	if err != nil {
		return fmt.Errorf("%s: %w", s.c.ID, err)
	}
	return nil
}

// done handles the result of the transaction, before the next transaction begins. If err is nil, it removes the
// committed changes from the memtable. It returns the number of bytes removed, and whether no uncommitted change is
// left.
func (s *commit) done(err error) (shrunk int, clean bool) {
	s.c.cursors.Written(s.cursors, err)
	if err != nil {
		s.cursors = nil // A later done, when the outcome is known, must not reset handlers again.
		return 0, false
	}
	s.c.idledFor.Store(s.idledFor)
	s.c.Read.File.Repaired(s.c.Read.Name, s.repaired)
	if !s.Idle {
		s.c.recorded.Store(s.Info.Timeline)
		s.c.Read.Memtable.Correct(func(now Covers) Covers {
			if now.EndedList == s.Info.EndedList { // No other list has ended since the snapshot was taken.
				now.EndedList = nil
			}
			return now
		})
	}
	shrunk, clean = s.c.Read.Memtable.Committed(s.MemtableSnapshot)
	return shrunk, clean && !s.c.cursors.Dirty()
}

// notify notifies the collection's user of the commit.
func (s *commit) notify(took time.Duration, err error) {
	if s.c.Committed == nil {
		return
	}
	done := Commit{Took: took, Err: err}
	if err == nil {
		done.Objects = s.Len()
	}
	s.c.Committed(done)
}
