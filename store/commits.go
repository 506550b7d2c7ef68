package store

import (
	"context"
	"time"

	"github.com/larder-dev/larder/internal/hook"
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
func (c *Collection) Backpressure(ctx context.Context) error {
	return c.store.commits.Backpressure(ctx, c.core, true)
}
