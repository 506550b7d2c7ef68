package store

import (
	"context"
	"time"

	"github.com/larder-dev/larder/internal/hook"
)

// pendingLimit is how many bytes may wait for a commit before collections that have their share of that wait too.
const pendingLimit = 64 << 20

func roomOf(h *hook.Hooks) int {
	if h == nil || h.Room == 0 {
		return pendingLimit
	}
	return h.Room
}

// commitPatience is how long a commit that is due may take before those who write faster than it no longer wait for it.
const commitPatience = 5 * time.Second

// WaitRoom waits while too much is pending for the collection to take in more. Two bounds apply to what all collections
// of the store have pending together. A collection waits at a bound only if it has its share, an equal part of the
// bound, so one that is busy does not hold up those that are quiet; at twice the bound all wait.
//
//   - Twice Options.CommitBytes: the collection waits for the commit, so that a writer that is faster than the disk is
//     slowed to the disk's pace. It waits for 5 seconds at most of each commit, counted from when that was due, and not
//     if the last one failed: a disk that hangs or fails does not stop it yet.
//   - 64 MiB: it waits until there is room. If the last commit has failed WaitRoom returns why at once.
//
// Once the store is being closed WaitRoom does not wait, and returns ErrClosed at the second bound.
func (c *Collection) WaitRoom(ctx context.Context) error { return c.waitRoom(ctx, true) }

// waitRoom is WaitRoom, or its second bound alone.
func (c *Collection) waitRoom(ctx context.Context, paced bool) error {
	k := &c.store.commits
	for {
		live, due := max(1, c.store.countLive()), c.store.dueBytes()
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
			return c.store.closedError()
		case err != nil:
			return err
		}
		if err := waitProgress(ctx, progress, full, pace); err != nil {
			return err
		}
	}
}

// fills reports whether c has to wait at the bound, with so many bytes pending of so many collections.
func (c *Collection) fills(bytes, bound, live int) bool {
	return bytes >= 2*bound || bytes >= bound && c.overlay.Size() >= max(1, bound/live)
}

// waitProgress waits for the next progress; unless full, for so long at most. It returns the cause of ctx if that ends
// first.
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

func (s *Store) countLive() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.live)
}
