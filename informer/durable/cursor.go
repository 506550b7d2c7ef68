package durable

import (
	"context"
	"time"

	"github.com/larder-dev/larder/store"
)

// Collection is the part of a stored collection that Handlers use. Of adapts a *store.Collection to it. The methods are
// documented there.
type Collection interface {
	OpenCursor(ctx context.Context, name string, keysOnly bool) (Cursor, error)
	ForgetCursor(ctx context.Context, name string) error
	RetainChanges(ctx context.Context, keep time.Duration) error
}

// Cursor is how one handler reads the changelog of a collection and keeps its position. *store.Cursor implements it;
// the methods are documented there.
type Cursor interface {
	Position() (position store.Position, resets int, err error)
	Acknowledge(position store.Position, resets int) error
	Read(ctx context.Context, after uint64) (store.ChangelogPage, error)
	Objects(ctx context.Context, after string, upTo uint64) (p store.ChangelogPage, end string, err error)
	Failing(ctx context.Context, keys map[string]uint64, upTo uint64) (store.ChangelogPage, error)
	Load(ctx context.Context, c store.ChangelogEntry) (store.ChangelogPage, error)
	Changed() <-chan struct{}
	Close()
}

// Of returns c as a Collection.
func Of(c *store.Collection) Collection { return collection{c} }

// collection adapts store.Collection.OpenCursor, which returns a *store.Cursor, to Collection.OpenCursor.
type collection struct{ *store.Collection }

func (c collection) OpenCursor(ctx context.Context, name string, keysOnly bool) (Cursor, error) {
	opened, err := c.Collection.OpenCursor(ctx, name)
	if err != nil {
		return nil, err
	}
	if keysOnly {
		opened = opened.KeysOnly()
	}
	return opened, nil
}
