package store

import (
	"context"

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

// WaitRoom waits while too much is pending for the collection to take in more: the collections of the store have 64 MiB together, and this one
// has its share, an equal part of that; so where commits hang or fail, one that is busy does not hold up those that are quiet. What is pending of all of them
// is never more than twice as much. If the last commit has failed it does not wait, and returns why; nor does it once the store is being closed, and returns ErrClosed.
func (c *Collection) WaitRoom(ctx context.Context) error {
	k := &c.store.commits
	for {
		share := max(1, k.limit/max(1, c.store.countLive()))
		k.mu.Lock()
		full := k.bytes >= 2*k.limit || k.bytes >= k.limit && c.overlay.size() >= share
		closed, err, progress := k.closed, k.err, k.progress
		k.mu.Unlock()
		switch {
		case !full:
			return nil
		case closed:
			return c.store.closedError()
		case err != nil:
			return err
		}
		select {
		case <-progress:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (s *Store) countLive() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.live)
}
