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

// LogQuery selects what has changed in one collection, of what the store keeps of its changes.
type LogQuery struct {
	// Collection is its id. Required.
	Collection string
	// Since selects what was stored at that time or later; what was stored in the minute before may be among it.
	Since time.Time
	// After selects what was stored after a number, in place of Since. nil: Since counts.
	After *uint64
	// Newest is the number of changes of a collection that are told at most, the newest ones. 0 is all. After knows no
	// bound.
	Newest int
	// Selector and Fields select objects by their present state, or by the last state before they were deleted. A deleted
	// object whose last state is unknown is selected.
	Selector, Fields string
	// Matches selects objects by their keys; nil selects all. Only LogAll uses it: Newest then counts the selected
	// objects.
	Matches func(key string) bool `json:"-"`
}

// Logged is an object that has changed, as it was left.
type Logged struct {
	// Type is Added if the object has come since, Deleted if it is gone, and otherwise Modified.
	Type EventType
	Key  string
	Seq  uint64
	// ResourceVersion is the object's; of one that is gone it is the delete's.
	ResourceVersion string
	// Time is when it was stored so, to a minute; zero if that is not known.
	Time time.Time
}

// Logger is a Source that can tell what has changed: a store's file, or the sync that holds it.
type Logger interface {
	// Log calls fn with each object that has changed, in the order of their last changes; with one that changes meanwhile
	// maybe once more. from is Since, or a later time before which changes may be missing. It fails with
	// consumer.ErrNotKept, also for a collection that is in memory only, and with *consumer.SinceError for an After that
	// cannot be served.
	Log(ctx context.Context, q LogQuery, fn func(Logged) error) (from time.Time, err error)
}

// LoggedOf is a change of one of several collections.
type LoggedOf struct {
	Logged
	Collection *Collection
	notBefore  time.Time // the time of the change, or else of the last dated one of its collection before it
	rv         uint64    // 0 if it cannot be compared
	nth        int       // of the collections
}

// LogAll returns what has changed in several collections, the oldest change first, each object once: within a minute by
// their resourceVersions, which the resources of a cluster have in common. It calls from with
// the collections of which changes may be missing since that time, until a later one, and with those of which none are
// kept, for which the time is zero. q is for each of them.
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

// logOne returns what has changed in a collection, each object once.
func logOne(ctx context.Context, l Logger, q LogQuery) (all []Logged, from time.Time, err error) {
	last := map[string]uint64{}
	most := q.Newest
	if q.Matches != nil {
		q.Newest = 0 // the newest changes may be of other objects
	}
	from, err = l.Log(ctx, q, func(c Logged) error {
		if q.Matches != nil && !q.Matches(c.Key) {
			return nil
		}
		all, last[c.Key] = append(all, c), c.Seq
		if most > 0 && len(all) >= 2*most { // bounds the memory
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
