package durable

import (
	"context"

	"github.com/larder-dev/larder/store/consumer"
)

// Handler has the functions that are called for changes, one at a time; a nil function does nothing. Each must return
// when ctx ends, at the end of the run. A call that has not returned nil by then is repeated after a restart.
type Handler struct {
	// OnChange is called for a change, and acknowledges it by returning nil. After an error or a panic it is called
	// again, after a back-off from 0.1 s doubled up to a minute. Other changes of that key wait until then. A later
	// change of the same object replaces an entry.Upsert that is not acknowledged. The object is shared and must not be
	// modified.
	OnChange func(ctx context.Context, c consumer.Change) error
	// OnReset is called before OnChange is called for every object, because the handler is new or may have missed
	// changes, including deletes. A handler that keeps objects must, at OnReplayed, drop the objects that no longer
	// exist. OnReset is called until it returns nil. A restart continues the replay without another OnReset.
	OnReset func(ctx context.Context, why consumer.ResetReason) error
	// OnReplayed is called when OnChange has been called for every object since OnReset. Objects that have changed
	// since then are excepted: their OnChange follows. OnReplayed is called until it returns nil.
	OnReplayed func(ctx context.Context) error
}

func (h Handler) filled() Handler {
	if h.OnChange == nil {
		h.OnChange = func(context.Context, consumer.Change) error { return nil }
	}
	if h.OnReset == nil {
		h.OnReset = func(context.Context, consumer.ResetReason) error { return nil }
	}
	if h.OnReplayed == nil {
		h.OnReplayed = func(context.Context) error { return nil }
	}
	return h
}
