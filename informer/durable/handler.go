package durable

import (
	"context"

	"github.com/larder-dev/larder/store"
)

// Handler is called for changes, and keeps its cursor across restarts: see Handlers.Add. Its methods are called one at
// a time. Each must return when ctx ends, at the end of the run. A call that has not returned nil by then is repeated.
type Handler interface {
	// OnChange is called for a change, and acknowledges it by returning nil. After an error or a panic it is called again
	// after a back-off, from 0.1 s doubled up to a minute, and not for other changes of that key before. Later changes of
	// the key replace a entry.Upsert of the same object. The object is shared and must not be modified.
	OnChange(ctx context.Context, c store.ChangelogEntry) error
	// OnReset is called before OnChange is called for every object, because the handler is new or may have missed changes,
	// deletes too. A handler that keeps objects must, at OnReplayed, find those that no longer exist. OnReset is called
	// until it returns nil. After a restart the objects go on, without another OnReset.
	OnReset(ctx context.Context, why store.ResetReason) error
	// OnReplayed is called when OnChange has been called for every object since OnReset, except those that have changed
	// since, whose call follows. It is called until it returns nil.
	OnReplayed(ctx context.Context) error
}

// HandlerFuncs implements Handler; a nil function does nothing.
type HandlerFuncs struct {
	ChangeFunc   func(ctx context.Context, c store.ChangelogEntry) error
	ResetFunc    func(ctx context.Context, why store.ResetReason) error
	ReplayedFunc func(ctx context.Context) error
}

// OnChange calls ChangeFunc.
func (f HandlerFuncs) OnChange(ctx context.Context, c store.ChangelogEntry) error {
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
