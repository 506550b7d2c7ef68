package source

import (
	"context"
	"errors"
	"fmt"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store"
	"github.com/larder-dev/larder/store/consumer"
)

// Watch implements Watcher, from what the store keeps of changes (store.Collection.RetainChanges): what has been
// committed, which is what every other reader of the file sees. Nothing is queued for a reader: one that is slow reads
// on where it was, as long as that is kept. Where no changes are kept it fails with consumer.ErrNotKept, unless the
// file is one that does not change.
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
		w.at = 0 // which would tell nobody anything
	}
	if err := w.begin(ctx); err != nil {
		return err
	}
	if kept.For == 0 {
		return ErrNotLive
	}
	return w.run(ctx)
}

// fileWatch is one watch of a collection whose changes are kept.
type fileWatch struct {
	file      *File
	view      *store.View
	decoder   *Decoder
	query     WatchQuery
	selection *selection
	fn        func(Event) error
	// keeps: what changes is kept. If not the list is all that there will be.
	keeps bool
	// at is the number up to which everything has been told.
	at uint64
	// sure is the number after which the selection knows what was selected before.
	sure uint64
	// listing: what is told is a part of the list, and has no number to go on after.
	listing bool
}

// begin tells where the watch begins, and the objects that are there if that was asked for. It has the selection know
// what is selected.
//
//	at         what has been committed before the list; or Since
//	sure       what has been committed after it
//
// What is between the two is told again, as a part of the list, so nothing is missing between list and changes: the
// number that the list ends with is not older than anything that it had. What is told again is not older than what the
// list had either: see tell.
func (w *fileWatch) begin(ctx context.Context) error {
	if since := w.query.Since; since != nil {
		w.at = *since
		if _, err := w.view.Changes(ctx, w.at); err != nil { // before anything is told
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
		w.selection.learn(e.Key)
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

// listAgain tells what has changed while the objects were listed.
func (w *fileWatch) listAgain(ctx context.Context) error {
	if err := w.known(ctx); err != nil || !w.keeps {
		return err
	}
	w.listing = true
	defer func() { w.listing = false }()
	for w.at < w.sure {
		if _, err := w.page(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (w *fileWatch) known(ctx context.Context) error {
	kept, err := w.view.Kept(ctx)
	w.sure = kept.Last
	return err
}

// run tells of changes until ctx ends or there will be no more.
func (w *fileWatch) run(ctx context.Context) error {
	for {
		changed := w.view.Changed() // before it is read, so that nothing is missed
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

// page tells of the next changes, and reports whether there are others already.
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
		if err := w.tell(ctx, c); err != nil {
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

func (w *fileWatch) tell(ctx context.Context, c consumer.Change) error {
	if w.query.List && c.Type == entry.Delete && c.Seq <= w.sure {
		// The list may have had an object that was created under the name since. That is yet to come, if it is still there.
		if now, err := w.view.Get(ctx, c.Key); now != nil || err != nil {
			return err
		}
	}
	e, ok, err := w.selection.event(change{
		key: c.Key, object: c.Object, deleted: c.Type == entry.Delete, created: c.Created > w.at, unsure: c.Seq <= w.sure,
	})
	if err != nil || !ok {
		return err
	}
	if !w.listing {
		e.Seq = c.Seq
	}
	return w.fn(e)
}
