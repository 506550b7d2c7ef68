package source

import (
	"context"
	"errors"

	"github.com/larder-dev/larder/entry"
)

// EventType is the type of an Event, in the words of the API server's watches.
type EventType string

// The types.
const (
	// Added: the object was created, or began to match the selectors.
	Added EventType = "ADDED"
	// Modified: the object has changed. After Since the object may also have begun to match.
	Modified EventType = "MODIFIED"
	// Deleted: the object was deleted, or no longer matches. Entry is its last known state, or has only the key.
	Deleted EventType = "DELETED"
	// Bookmark has no entry. All events up to Seq have been sent, and no other event is pending.
	Bookmark EventType = "BOOKMARK"
)

// Event is a change of one object, or a Bookmark.
type Event struct {
	Type  EventType
	Entry entry.Entry
	// Seq is the changelog offset after which a reader of all events up to this one can resume (WatchQuery.Since). It
	// is 0 without a changelog, and for the objects of a list.
	Seq uint64
	// Listed: the Bookmark is the end of the list that WatchQuery.List requested.
	Listed bool
}

// WatchQuery selects the objects of one collection for a watch.
type WatchQuery struct {
	Query
	// List requests the existing objects first, as Added.
	List bool
	// Since requests the changes after a changelog offset first; it excludes List. Default: changes from now on.
	Since *uint64
}

// Watcher is a Source that sends changes: a store's file, or the sync that holds it. Other Sources do not change.
type Watcher interface {
	// Watch calls fn for each change of selected objects, at least once, and in order for each object. First it sends a
	// Bookmark with the position at which the watch begins, then the events, and a Bookmark whenever it has caught up.
	// It may combine several changes of an object in quick succession.
	//
	// It returns the cause of ctx when ctx ends, or fn's error. It returns ErrNotLive when all events are sent and no
	// sync mirrors the collection, consumer.ErrNotKept or *consumer.SinceError if Since is not available, and ErrSlow
	// or ErrStopping.
	Watch(ctx context.Context, q WatchQuery, fn func(Event) error) error
}

// Errors of watches.
var (
	// ErrNotLive: no sync mirrors the collection, so it does not change. All events have been sent.
	ErrNotLive = errors.New("no sync mirrors it, so it does not change")
	// ErrSlow: the reader took no events for so long that the sync, which has no changelog, dropped the watch.
	ErrSlow = errors.New("the reader of the watch was too slow, and changes were left out")
	// ErrStopping: the sync is stopping.
	ErrStopping = errors.New("the sync that was watched has stopped")
	// ErrSilent: the sync has not answered for half a minute.
	ErrSilent = errors.New("the sync that was watched does not answer any more")

	errListSince = errors.New("a watch begins with the list or after a number, not with both")
)

// check rejects invalid queries.
func (q WatchQuery) check() error {
	if q.List && q.Since != nil {
		return errListSince
	}
	return nil
}
