package durable

import (
	"context"

	"github.com/larder-dev/larder/store"
)

// Cursor is how one handler reads the changelog of a collection and keeps its position. *store.Cursor implements it;
// the methods are documented there.
type Cursor interface {
	Position() (position store.Position, resets int, err error)
	Acknowledge(position store.Position, resets int) error
	Read(ctx context.Context, at store.Position) (p store.ChangelogPage, next store.Position, err error)
	Next(ctx context.Context, key string, from, upTo uint64) (store.ChangelogPage, error)
	Changed() <-chan struct{}
	Close()
}
