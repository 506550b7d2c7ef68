package source

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store"
	"github.com/larder-dev/larder/store/consumer"
	"github.com/larder-dev/larder/store/query"
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

// selection converts the changes of a collection to the events of a watch. With a selector, an object that no longer
// matches becomes Deleted, and an object that begins to match becomes Added.
type selection struct {
	query  Query
	parsed query.Query
	// known has the keys of matching objects, which the reader of the watch knows. It is nil if the query has no selector:
	// an object's namespace and name never change.
	known map[string]struct{}
}

func newSelection(q Query) (*selection, error) {
	parsed, err := q.parse()
	if err != nil {
		return nil, err
	}
	s := &selection{query: q, parsed: parsed}
	if q.selective() {
		s.known = map[string]struct{}{}
	}
	return s, nil
}

func (s *selection) add(key string) {
	if s.known != nil {
		s.known[key] = struct{}{}
	}
}

// change is the change of an object, before it is converted to an event.
type change struct {
	key string
	// object is the object's last state; nil for a deleted object whose last state is unknown.
	object  runtime.Object
	deleted bool
	created bool
	// uncertain is true if the object may have matched the query before the change, although its key is not in
	// selection.known, the matching keys.
	uncertain bool
}

func (s *selection) event(c change) (e Event, ok bool, err error) {
	if !s.query.reaches(c.key) {
		return e, false, nil
	}
	_, known := s.known[c.key]
	known = known || s.known == nil
	selected := !c.deleted
	if selected && s.known != nil {
		if selected, err = s.parsed.Matches(c.object); err != nil {
			return e, false, err
		}
	}
	switch {
	case selected && (c.created || !known):
		e.Type = Added
		s.add(c.key)
	case selected:
		e.Type = Modified
	case !known && (!c.uncertain || c.created):
		return e, false, nil
	default:
		e.Type = Deleted
		delete(s.known, c.key)
	}
	e.Entry = entry.Entry{Key: c.key}
	if c.object != nil {
		e.Entry, err = encode(c.key, c.object)
	}
	return e, err == nil, err
}

// Watch implements Watcher. It reads committed changes from the changelog of the collection
// (store.Collection.RetainChanges). Events are not queued: a slow reader continues at its position, as long as the
// changelog reaches back to it. Watch fails with consumer.ErrNotKept for a collection that can change but has no
// changelog.
func (f *File) Watch(ctx context.Context, q WatchQuery, fn func(Event) error) error {
	err := f.watch(ctx, q, fn)
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return context.Cause(ctx)
	}
	return err
}

func (f *File) watch(ctx context.Context, q WatchQuery, fn func(Event) error) error {
	s, err := newSelection(q.Query)
	if err := errors.Join(err, q.check()); err != nil {
		return err
	}
	info, err := f.find(ctx, q.Collection)
	if err != nil {
		return err
	}
	d := NewDecoder(NewCollection(info))
	view, err := f.store.ViewWith(ctx, info.Identity, d.codec)
	if err != nil {
		return err
	}
	kept, err := view.Kept(ctx)
	if err != nil {
		return err
	}
	w := &fileWatch{file: f, view: view, decoder: d, query: q, selection: s, fn: fn, at: kept.Last, keeps: kept.For > 0}
	switch live := view.Changed() != nil; {
	case kept.For > 0:
	case live || q.Since != nil:
		return fmt.Errorf("changes of %s: %w", info.Identity, consumer.ErrNotKept)
	default:
		w.at = 0 // without a changelog, no watch can resume at an offset
	}
	if err := w.begin(ctx); err != nil {
		return err
	}
	if kept.For == 0 {
		return ErrNotLive
	}
	return w.run(ctx)
}

type fileWatch struct {
	file      *File
	view      *store.View
	decoder   *Decoder
	query     WatchQuery
	selection *selection
	fn        func(Event) error
	// keeps says that the collection has a changelog. Without a changelog the watch ends after the list.
	keeps bool
	// at is the changelog offset up to which the watch has sent all changes.
	at uint64
	// listedTo is the last changelog offset at the time when all matching objects were in the selection. For a change up
	// to that offset, the selection may not show whether the changed object matched before.
	listedTo uint64
	// listing says that the list is being sent, so that events have no offset to resume from.
	listing bool
}

// begin sends the Bookmark at the position where the watch begins, and then the list if it was requested. It adds the
// matching objects to the selection. begin sets two changelog offsets:
//
//	at         last offset before the list; or Since
//	listedTo   last offset after the list
//
// The changes between the two are sent again, as part of the list. So no change between the list and the later events
// is missing, and the offset at the end of the list is not older than any object in the list. The method send ensures
// that no object goes back to an older state.
func (w *fileWatch) begin(ctx context.Context) error {
	if since := w.query.Since; since != nil {
		w.at = *since
		if _, err := w.view.Changes(ctx, w.at); err != nil { // an unavailable offset fails before any event is sent
			return err
		}
	}
	if err := w.fn(Event{Type: Bookmark, Seq: w.at}); err != nil {
		return err
	}
	if !w.query.List && w.selection.known == nil {
		return nil
	}
	q := w.query.Query
	q.KeysOnly = !w.query.List
	err := w.file.Entries(ctx, q, func(e entry.Entry) error {
		w.selection.add(e.Key)
		if !w.query.List {
			return nil
		}
		return w.fn(Event{Type: Added, Entry: e})
	})
	if err != nil {
		return err
	}
	if !w.query.List {
		return w.known(ctx)
	}
	if err := w.listAgain(ctx); err != nil {
		return err
	}
	return w.fn(Event{Type: Bookmark, Seq: w.at, Listed: true})
}

func (w *fileWatch) listAgain(ctx context.Context) error {
	if err := w.known(ctx); err != nil || !w.keeps {
		return err
	}
	w.listing = true
	defer func() { w.listing = false }()
	for w.at < w.listedTo {
		if _, err := w.page(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (w *fileWatch) known(ctx context.Context) error {
	kept, err := w.view.Kept(ctx)
	w.listedTo = kept.Last
	return err
}

func (w *fileWatch) run(ctx context.Context) error {
	for {
		changed := w.view.Changed() // Changed is called before the read, so that no change is missed
		more, err := w.page(ctx)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			return err
		case more:
			continue
		case changed == nil:
			return ErrNotLive
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// page sends one page of changes from the changelog. It reports whether the changelog has more changes.
func (w *fileWatch) page(ctx context.Context) (more bool, err error) {
	p, err := w.view.Changes(ctx, w.at)
	if err != nil {
		return false, err
	}
	if n := len(p.Unreadable); n > 0 {
		return false, w.decoder.collection.undecodable(fmt.Errorf(
			"%d changed objects, such as %s, cannot be decoded: %w", n, p.Unreadable[0], entry.ErrIncompatible))
	}
	for _, c := range p.Changes {
		if err := w.send(ctx, c); err != nil {
			return false, err
		}
	}
	silent := p.End == w.at || w.listing
	w.at = p.End
	if silent {
		return p.More, nil
	}
	return p.More, w.fn(Event{Type: Bookmark, Seq: w.at})
}

func (w *fileWatch) send(ctx context.Context, c consumer.Change) error {
	if w.query.List && c.Type == entry.Delete && c.Seq <= w.listedTo {
		// The list may contain an object that was created later under the deleted object's name. If that object still exists,
		// its own event follows, and the deletion is not sent.
		if now, err := w.view.Get(ctx, c.Key); now != nil || err != nil {
			return err
		}
	}
	e, ok, err := w.selection.event(change{
		key: c.Key, object: c.Object, deleted: c.Type == entry.Delete, created: c.Created > w.at,
		uncertain: c.Seq <= w.listedTo,
	})
	if err != nil || !ok {
		return err
	}
	if !w.listing {
		e.Seq = c.Seq
	}
	return w.fn(e)
}
