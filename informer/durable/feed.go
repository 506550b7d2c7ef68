package durable

import (
	"context"
	"time"

	"github.com/larder-dev/larder/store"
)

// Collection is the part of a stored collection that Handlers use. Of adapts a *store.Collection to it. The methods are
// documented there.
type Collection interface {
	Feed(ctx context.Context, name string, keysOnly bool) (Feed, error)
	ForgetHandler(ctx context.Context, name string) error
	RetainChanges(ctx context.Context, keep time.Duration) error
}

// Feed is how one handler reads the changelog of a collection and keeps its position. *store.Feed implements it; the
// methods are documented there.
type Feed interface {
	Place() (place store.Place, resets int, err error)
	Acknowledge(place store.Place, resets int) error
	Read(ctx context.Context, after uint64) (store.FeedPage, error)
	Objects(ctx context.Context, after string, upTo uint64) (p store.FeedPage, end string, err error)
	Failing(ctx context.Context, keys map[string]uint64, upTo uint64) (store.FeedPage, error)
	Load(ctx context.Context, c store.FeedChange) (store.FeedPage, error)
	Changed() <-chan struct{}
	Close()
}

// Of returns c as a Collection.
func Of(c *store.Collection) Collection { return collection{c} }

// collection adapts store.Collection.Feed, which returns a *store.Feed, to Collection.Feed.
type collection struct{ *store.Collection }

func (c collection) Feed(ctx context.Context, name string, keysOnly bool) (Feed, error) {
	opened, err := c.Collection.Feed(ctx, name)
	if err != nil {
		return nil, err
	}
	if keysOnly {
		opened = opened.KeysOnly()
	}
	return opened, nil
}
