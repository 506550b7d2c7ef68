package subject

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/larder-dev/larder/informer"
)

// commits is the informer.Observer of Larder: it knows how long the last commit took.
type commits struct {
	took atomic.Int64
	// made has a token once there has been another.
	made chan struct{}
}

var _ informer.Observer = &commits{}

func newCommits() *commits { return &commits{made: make(chan struct{}, 1)} }

// Committed implements informer.Observer.
func (c *commits) Committed(_ *informer.Informer, done informer.Commit) {
	if done.Err == nil {
		c.took.Store(int64(done.Took))
	}
	select {
	case c.made <- struct{}{}:
	default:
	}
}

// InformerMade implements informer.Observer.
func (c *commits) InformerMade(*informer.Informer) {}

// InformerEnded implements informer.Observer.
func (c *commits) InformerEnded(*informer.Informer) {}

// HandlerCalled implements informer.Observer.
func (c *commits) HandlerCalled(*informer.Informer, string, time.Duration) {}

// AwaitCommit waits until Larder has nothing pending, and returns how long the last commit took. It does not ask for one.
func (r *Running) AwaitCommit(ctx context.Context) (took time.Duration, err error) {
	for r.Store.Pending() > 0 {
		select {
		case <-r.commits.made:
		case <-ctx.Done():
			return 0, fmt.Errorf("%d bytes are pending: %w", r.Store.Pending(), ctx.Err())
		}
	}
	return time.Duration(r.commits.took.Load()), nil
}
