package source

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/discovery"
	"github.com/larder-dev/larder/store/consumer"
)

// LogQuery selects changes from the changelog of one collection.
type LogQuery struct {
	// Collection is the required id of the collection.
	Collection string
	// Since selects changes that were stored at that time or later. The result may include changes of the minute before
	// Since.
	Since time.Time
	// After selects changes after this changelog offset, and replaces Since. Default: Since is used.
	After *uint64
	// Newest is the maximum number of changes; the newest changes are returned. 0 means all. Newest is ignored if After is
	// set.
	Newest int
	// Selector and Fields are label and field selectors. They are applied to an object's present state, or to the last
	// state of a deleted object. A deleted object whose last state is unknown is selected.
	Selector, Fields string
	// Matches selects objects by their keys; nil selects all. Only LogAll applies it. Newest then counts only changes of
	// matching objects.
	Matches func(key string) bool `json:"-"`
}

// Logged is the latest change of one object in a changelog.
type Logged struct {
	// Type is Added if the object was created in the selected part of the changelog, Deleted if it was deleted, and
	// otherwise Modified.
	Type EventType
	Key  string
	Seq  uint64
	// ResourceVersion is that of the object, or of its deletion.
	ResourceVersion string
	// Time is when the change was stored, accurate to a minute; zero if unknown.
	Time time.Time
}

// Logger is a Source that reads changelogs: a store's file, or the larder sync that holds the file.
type Logger interface {
	// Log calls fn with the latest change of each changed object, in the order of these changes. If an object changes
	// meanwhile, fn may be called for it twice. The changelog is complete since from, which is not before Since. Log fails
	// with consumer.ErrNotKept if the collection has no changelog or is in memory only. It fails with *consumer.SinceError
	// if changes after the offset After are no longer available.
	Log(ctx context.Context, q LogQuery, fn func(Logged) error) (from time.Time, err error)
}

// LoggedOf is a change in a collection.
type LoggedOf struct {
	Logged
	Collection *Collection
	notBefore  time.Time // notBefore is the sort key: the latest Time of this change and of earlier changes
	rv         uint64
	nth        int
}

// LogAll returns the changes in several collections, oldest first, with one change per object. Changes within a minute
// are sorted by resourceVersion, which is common to all resources of a cluster. q applies to each collection. If
// changes of a collection after q.Since may be missing, LogAll calls from with the collection and the time since which
// its changes are complete. The time is zero for a collection without a changelog.
func LogAll(
	ctx context.Context, l Logger, of []Collection, q LogQuery, from func(Collection, time.Time),
) (all []LoggedOf, err error) {
	selector := q.Fields
	for i := range of {
		q.Collection, q.Fields = of[i].ID, discovery.StoredSelector(of[i].Identity().GroupResource(), selector)
		one, kept, err := logOne(ctx, l, q)
		switch {
		case errors.Is(err, consumer.ErrNotKept):
			from(of[i], time.Time{})
		case err != nil:
			return nil, err
		case kept.After(q.Since):
			from(of[i], kept)
		}
		var notBefore time.Time
		for _, c := range one {
			if c.Time.After(notBefore) {
				notBefore = c.Time
			}
			rv, _ := strconv.ParseUint(c.ResourceVersion, 10, 64)
			all = append(all, LoggedOf{c, &of[i], notBefore, rv, i})
		}
	}
	slices.SortFunc(all, func(a, b LoggedOf) int {
		return cmp.Or(a.notBefore.Compare(b.notBefore), cmp.Compare(a.rv, b.rv), cmp.Compare(a.nth, b.nth),
			cmp.Compare(a.Seq, b.Seq))
	})
	return all, nil
}

func logOne(ctx context.Context, l Logger, q LogQuery) (all []Logged, from time.Time, err error) {
	last := map[string]uint64{}
	most := q.Newest
	if q.Matches != nil {
		q.Newest = 0
	}
	from, err = l.Log(ctx, q, func(c Logged) error {
		if q.Matches != nil && !q.Matches(c.Key) {
			return nil
		}
		all, last[c.Key] = append(all, c), c.Seq
		if most > 0 && len(all) >= 2*most {
			for _, old := range all[:most] {
				if last[old.Key] == old.Seq {
					delete(last, old.Key)
				}
			}
			all = slices.Delete(all, 0, most)
		}
		return nil
	})
	all = slices.DeleteFunc(all, func(c Logged) bool { return last[c.Key] != c.Seq })
	if q.Matches != nil && most > 0 {
		all = all[max(0, len(all)-most):]
	}
	return all, from, err
}

// Log implements Logger.
func (f *File) Log(ctx context.Context, q LogQuery, fn func(Logged) error) (from time.Time, err error) {
	info, err := f.find(ctx, q.Collection)
	if err != nil {
		return from, err
	}
	view, err := f.store.ViewWith(ctx, info.Identity, NewDecoder(NewCollection(info)).codec)
	if err != nil {
		return from, err
	}
	after := uint64(0)
	if q.After != nil {
		after = *q.After
	} else if after, from, err = view.OffsetAt(ctx, q.Since, q.Newest); err != nil {
		return from, err
	}
	selection := Query{Selector: q.Selector, Fields: q.Fields}
	parsed, err := selection.parse()
	if err != nil {
		return from, err
	}
	read := view.ChangedKeys
	if selection.selective() {
		read = view.Changes
	}
	for at := after; ; {
		p, err := read(ctx, at)
		if err == nil && len(p.Unreadable) > 0 {
			err = fmt.Errorf("%d changed objects, such as %s, cannot be decoded to select them: %w", len(p.Unreadable),
				p.Unreadable[0], entry.ErrIncompatible)
		}
		if err != nil {
			return from, err
		}
		for _, c := range p.Changes {
			if c.Object != nil {
				if ok, err := parsed.Matches(c.Object); err != nil {
					return from, err
				} else if !ok {
					continue
				}
			}
			l := Logged{Type: Modified, Key: c.Key, Seq: c.Seq, ResourceVersion: c.ResourceVersion, Time: c.Time}
			switch {
			case c.Type == entry.Delete:
				l.Type = Deleted
			case c.Created > after:
				l.Type = Added
			}
			if err := fn(l); err != nil {
				return from, err
			}
		}
		if at = p.End; !p.More {
			return from, nil
		}
	}
}
