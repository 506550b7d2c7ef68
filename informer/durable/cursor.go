package durable

import (
	"context"

	"github.com/larder-dev/larder/store/consumer"
)

// Cursor reads the changelog of a collection for one handler and keeps the handler's position. *store.Cursor implements
// it and documents the methods.
type Cursor interface {
	Position() (position consumer.Position, resets int, err error)
	Acknowledge(position consumer.Position, resets int) error
	Read(ctx context.Context, at consumer.Position) (p consumer.Page, next consumer.Position, err error)
	Next(ctx context.Context, key string, from, upTo uint64) (consumer.Page, error)
	Changed() <-chan struct{}
	Close()
}
