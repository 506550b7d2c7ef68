package source

import (
	"context"
	"errors"

	"github.com/larder-dev/larder/entry"
)

// EventType is what an Event tells. The words are those of the API server's watches.
type EventType string

// The types.
const (
	// Added: the object is there, and was not, or was not selected.
	Added EventType = "ADDED"
	// Modified: the object has changed. After Since it may also be one that has begun to be selected.
	Modified EventType = "MODIFIED"
	// Deleted: the object is gone, or is not selected any more. Entry is its last state that is known; if none is, the
	// key alone.
	Deleted EventType = "DELETED"
	// Bookmark has no entry: everything up to Seq has been told, and for now there is no more.
	Bookmark EventType = "BOOKMARK"
)

// Event is a change of one object, or a Bookmark.
type Event struct {
	Type  EventType
	Entry entry.Entry
	// Seq is the number to go on after (WatchQuery.Since) by who has taken everything up to this event; 0 if changes are
	// not kept, and for the objects of a list.
	Seq uint64
	// Listed: the Bookmark is the end of the list that WatchQuery.List has asked for.
	Listed bool
}

// WatchQuery selects what of one collection is watched.
type WatchQuery struct {
	Query
	// List has the objects that there are told first, as Added.
	List bool
	// Since has what has changed after a number told first; it excludes List. nil is from now on.
	Since *uint64
}

// Watcher is a Source that tells of changes: a store's file, or the sync that holds it. A Source that is no Watcher
// does not change.
type Watcher interface {
	// Watch calls fn for each change of what q selects, in order for each object and at least once: first a Bookmark that
	// tells where it begins, then the events, and a Bookmark whenever there is no more for now. States that follow each
	// other quickly may be told as one.
	//
	// It returns when ctx ends, with its cause, and with fn's error; with ErrNotLive when all is told and nobody mirrors
	// into the collection; with consumer.ErrNotKept and *consumer.SinceError if Since cannot be served; and with ErrSlow,
	// ErrStopping.
	Watch(ctx context.Context, q WatchQuery, fn func(Event) error) error
}

// Errors of watching.
var (
	// ErrNotLive: nobody mirrors into the collection, so it does not change. Everything that there is has been told.
	ErrNotLive = errors.New("no sync mirrors it, so it does not change")
	// ErrSlow: the reader has not taken events for so long that the sync, which keeps no changes, has stopped waiting.
	ErrSlow = errors.New("the reader of the watch was too slow, and changes were left out")
	// ErrStopping: the sync is ending.
	ErrStopping = errors.New("the sync that was watched has stopped")
	// ErrSilent: the sync that answers has not been heard for half a minute.
	ErrSilent = errors.New("the sync that was watched does not answer any more")

	errListSince = errors.New("a watch begins with the list or after a number, not with both")
)

// check finds what cannot be.
func (q WatchQuery) check() error {
	if q.List && q.Since != nil {
		return errListSince
	}
	return nil
}
