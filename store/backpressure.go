package store

import (
	"context"
	"time"

	"github.com/larder-dev/larder/internal/hook"
)

// dirtyLimit is how many bytes may be dirty in all collections before those with their share of it have to wait.
const dirtyLimit = 64 << 20

func dirtyLimitOf(h *hook.Hooks) int {
	if h == nil || h.DirtyLimit == 0 {
		return dirtyLimit
	}
	return h.DirtyLimit
}

// commitPatience is how long writers that are faster than the disk wait for a commit that is due.
const commitPatience = 5 * time.Second

// Backpressure waits while too many bytes are dirty. Two bounds apply to the dirty bytes of all collections of the
// store together. At a bound a collection waits only if it has its share, an equal part of the bound, so a busy
// collection does not hold up the quiet ones. At twice the bound all collections wait.
//
//   - Twice Options.CommitBytes: the collection waits for the commit, so that a writer that is faster than the disk is
//     slowed to the disk's pace. It waits until 5 seconds after the commit was due at most, and not if the last commit
//     failed: a disk that hangs or fails does not stop it at this bound.
//   - 64 MiB: it waits until fewer bytes are dirty. If the last commit has failed, it returns that error at once.
//
// Once the store is being closed Backpressure does not wait, and returns ErrClosed at the second bound.
func (c *Collection) Backpressure(ctx context.Context) error { return c.backpressure(ctx, true) }

// backpressure is Backpressure, or its second bound alone.
func (c *Collection) backpressure(ctx context.Context, paced bool) error {
	k := &c.store.commits
	for {
		live, due := max(1, c.store.live.count()), k.due()
		k.mu.Lock()
		full, pace := c.fills(k.bytes, k.limit, live), time.Duration(0)
		if paced && !k.closed && k.err == nil && c.fills(k.bytes, 2*due, live) {
			pace = time.Until(k.dueSince.Add(commitPatience))
		}
		closed, err, progress := k.closed, k.err, k.progress
		k.mu.Unlock()
		switch {
		case !full && pace <= 0:
			return nil
		case closed:
			return k.closedError()
		case err != nil:
			return err
		}
		if err := waitProgress(ctx, progress, full, pace); err != nil {
			return err
		}
	}
}

// fills reports whether c has to wait at the bound if live collections have that many dirty bytes together.
func (c *Collection) fills(bytes, bound, live int) bool {
	return bytes >= 2*bound || bytes >= bound && c.read.Memtable.Size() >= max(1, bound/live)
}

// waitProgress waits until progress is closed or, unless full is true, atMost has passed. It returns the cause of ctx
// if ctx ends first.
func waitProgress(ctx context.Context, progress <-chan struct{}, full bool, atMost time.Duration) error {
	var over <-chan time.Time
	if !full {
		timer := time.NewTimer(atMost)
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-progress:
	case <-over:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}
