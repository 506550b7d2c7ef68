package durable

import (
	"context"

	"github.com/larder-dev/larder/store"
)

// Handler is told of changes, and keeps its place over restarts: see Handlers.Add. Its methods are called one at a
// time. Each has to return when ctx ends, which is at the end of the run; what it has not returned nil for by then
// comes again.
type Handler interface {
	// OnChange is told of a change, and acknowledges it by nil. After an error, or a panic, it is told again with a
	// back-off, from 0.1 s doubled up to a minute, and of nothing else of that key before that; changes of the key that
	// follow take the place of a store.Upsert of the same object. The object is shared and must not be modified.
	OnChange(ctx context.Context, c store.FeedChange) error
	// OnReset is told that every object will be told now, because it is new or because it may have missed something,
	// deletes too: whoever keeps what he was told has to look, at OnReplayed, for what is no longer there. It is called
	// until it returns nil. A restart in between goes on with the objects, without another OnReset.
	OnReset(ctx context.Context, why store.ResetReason) error
	// OnReplayed is told that every object has been told since OnReset, or was changed and will be. It is called until it
	// returns nil.
	OnReplayed(ctx context.Context) error
}

// HandlerFuncs are a Handler; what is nil does nothing.
type HandlerFuncs struct {
	ChangeFunc   func(ctx context.Context, c store.FeedChange) error
	ResetFunc    func(ctx context.Context, why store.ResetReason) error
	ReplayedFunc func(ctx context.Context) error
}

// OnChange calls ChangeFunc.
func (f HandlerFuncs) OnChange(ctx context.Context, c store.FeedChange) error {
	if f.ChangeFunc == nil {
		return nil
	}
	return f.ChangeFunc(ctx, c)
}

// OnReset calls ResetFunc.
func (f HandlerFuncs) OnReset(ctx context.Context, why store.ResetReason) error {
	if f.ResetFunc == nil {
		return nil
	}
	return f.ResetFunc(ctx, why)
}

// OnReplayed calls ReplayedFunc.
func (f HandlerFuncs) OnReplayed(ctx context.Context) error {
	if f.ReplayedFunc == nil {
		return nil
	}
	return f.ReplayedFunc(ctx)
}
