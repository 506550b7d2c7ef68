package source

import (
	"context"
	"errors"

	"github.com/larder-dev/larder/entry"
)

// EventType is the type of an Event, named as in watches of the API server.
type EventType string

const (
	// Added says that the object was created, or that it began to match the selectors.
	Added EventType = "ADDED"
	// Modified says that the object has changed. In a watch with WatchQuery.Since the object may also have begun to match
	// the selectors.
	Modified EventType = "MODIFIED"
	// Deleted says that the object was deleted, or that it no longer matches the selectors. Its Entry is the last known
	// state, or has only the key.
	Deleted EventType = "DELETED"
	// Bookmark has no object. It says that all events up to Seq have been sent, and that no further event is waiting.
	Bookmark EventType = "BOOKMARK"
)

// Event is a change of an object, or a Bookmark, which marks a position in the watch.
type Event struct {
	Type  EventType
	Entry entry.Entry
	// Seq is the changelog offset of the event, for WatchQuery.Since: a reader of all events so far can resume after Seq.
	// It is 0 for the objects of a list, and in a watch of a collection without a changelog.
	Seq uint64
	// Listed says that the Bookmark ends the list that WatchQuery.List has requested.
	Listed bool
}

// WatchQuery selects the objects of one collection whose changes a watch sends.
type WatchQuery struct {
	Query
	// List requests the existing objects first, as Added events.
	List bool
	// Since requests all changes after this changelog offset. Since and List exclude each other. Default: only changes
	// from now on.
	Since *uint64
}

// Watcher is a Source that can send changes: a store's file, or the larder sync that has locked the file. A snapshot
// does not change.
type Watcher interface {
	// Watch calls fn for each change of a selected object, at least once, and in order for each object. The first event is
	// a Bookmark with the position at which the watch begins. A further Bookmark follows whenever all events so far have
	// been sent. Several changes of an object in quick succession may be combined into one.
	//
	// Watch returns the cause of ctx when ctx ends, or the error of fn. It returns ErrNotLive when all events are sent and
	// no larder sync mirrors the collection. It returns consumer.ErrNotKept or *consumer.SinceError if changes after Since
	// are not available, and ErrSlow or ErrStopping if the sync ends the watch.
	Watch(ctx context.Context, q WatchQuery, fn func(Event) error) error
}

var (
	// ErrNotLive says that all events have been sent. No larder sync mirrors the collection, so that it does not change.
	ErrNotLive = errors.New("no sync mirrors it, so it does not change")
	// ErrSlow says that the larder sync has dropped the watch of a collection without a changelog, because the watch's
	// reader took no events for too long.
	ErrSlow = errors.New("the reader of the watch was too slow, and changes were left out")
	// ErrStopping says that the larder sync that sends the events is stopping.
	ErrStopping = errors.New("the sync that was watched has stopped")
	// ErrSilent says that the larder sync that sends the events has not answered for half a minute.
	ErrSilent = errors.New("the sync that was watched does not answer any more")

	errListSince = errors.New("a watch begins with the list or after a number, not with both")
)

func (q WatchQuery) check() error {
	if q.List && q.Since != nil {
		return errListSince
	}
	return nil
}
