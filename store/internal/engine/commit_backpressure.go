package engine

import (
	"context"
	"time"
)

// commitPatience is how long paced writers, which are faster than the disk, wait for a due commit.
const commitPatience = 5 * time.Second

// Backpressure waits while too many bytes are uncommitted; see store.Collection.Backpressure. live returns the number
// of collections that share the limit, of which m is one. If paced is false, Backpressure does not wait for a due
// commit, but only at the limit.
func (l *CommitLoop) Backpressure(ctx context.Context, m CommitMember, live func() int, paced bool) error {
	for {
		live, due := max(1, live()), l.due()
		l.mu.Lock()
		full, pace := fills(m, l.bytes, l.Limit, live), time.Duration(0)
		if paced && !l.closed && l.err == nil && fills(m, l.bytes, 2*due, live) {
			pace = time.Until(l.dueSince.Add(commitPatience))
		}
		closed, err, progress := l.closed, l.err, l.progress
		l.mu.Unlock()
		switch {
		case !full && pace <= 0:
			return nil
		case closed:
			return l.closedError()
		case err != nil:
			return err
		}
		if err := waitProgress(ctx, progress, full, pace); err != nil {
			return err
		}
	}
}

// fills reports whether m must wait at this bound for the uncommitted bytes of all live collections. m waits at the
// bound if it has at least its equal share, and always at twice the bound.
func fills(m CommitMember, bytes, bound, live int) bool {
	return bytes >= 2*bound || bytes >= bound && m.Size() >= max(1, bound/live)
}

// waitProgress waits until progress is closed, and for atMost unless full is true. If ctx ends, it returns the cause.
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
