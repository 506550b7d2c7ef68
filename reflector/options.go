package reflector

import (
	"context"

	"k8s.io/utils/clock"
)

// Options are the options of New. The zero value works.
type Options struct {
	// Name appears in logs. Default: the type's description.
	Name string
	// TypeDescription names the type in logs and errors, such as "*v1.Pod".
	TypeDescription string
	// PageSize is the limit of list requests. Default 2000.
	PageSize int64
	// Verify, if set, is called at every (re)connect before the watch is
	// opened: it compares what the contents depend on (the cluster's id, the codec…) with what is
	// stored, and returns the reason for a relist, or none. An error counts as a failed
	// connection: back off, try again.
	Verify func(ctx context.Context) (Reason, error)
	// Lookup, if set, reads the identity of one object as the server has it
	// now (found is false if it has none), preferably by metadata. Default: a list of
	// ListerWatcher with a field selector on name and namespace.
	Lookup func(ctx context.Context, key string) (ref ObjectRef, found bool, err error)
	// OnError is called with each error that ended a connection, before the reflector backs off.
	OnError func(ctx context.Context, err error)
	// OnContact, if set, is called when the server was heard: a response, an event, a bookmark.
	// It must not block.
	OnContact func()
	// Clock is for tests. Default: the real clock.
	Clock clock.WithTicker
}
