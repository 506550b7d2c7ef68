package source

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/larder-dev/larder/entry"
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
}

// Logged is an object that has changed. It is told once, as it was left.
type Logged struct {
	// Type is Added if the object has come since, Deleted if it is gone, and otherwise Modified.
	Type EventType
	Key  string
	Seq  uint64
	// Time is when it was stored so, to a minute; zero if that is not known.
	Time time.Time
}

// Logger is a Source that can tell what has changed: a store's file, or the sync that holds it.
type Logger interface {
	// Log calls fn with each object that has changed, in the order of their last changes. from is Since, or a later time
	// from which on changes are kept. It fails with consumer.ErrNotKept, and with *consumer.SinceError for an After that
	// cannot be served.
	Log(ctx context.Context, q LogQuery, fn func(Logged) error) (from time.Time, err error)
}

// LoggedOf is a change of one of several collections.
type LoggedOf struct {
	Logged
	Collection Collection
	notBefore  time.Time // the time of the change, or else of the last dated one of its collection before it
}

// LogAll returns what has changed in several collections, the oldest change first. It calls from with the collections
// of which changes are kept since a later time than that, and with those of which none are, for which the time is zero.
// after is LogQuery.After, for one collection.
func LogAll(
	ctx context.Context, l Logger, of []Collection, since time.Time, after *uint64, from func(Collection, time.Time),
) (all []LoggedOf, err error) {
	for _, c := range of {
		var notBefore time.Time
		kept, err := l.Log(ctx, LogQuery{Collection: c.ID, Since: since, After: after}, func(one Logged) error {
			if one.Time.After(notBefore) {
				notBefore = one.Time
			}
			all = append(all, LoggedOf{one, c, notBefore})
			return nil
		})
		switch {
		case errors.Is(err, consumer.ErrNotKept):
			from(c, time.Time{})
		case err != nil:
			return nil, err
		case kept.After(since):
			from(c, kept)
		}
	}
	slices.SortStableFunc(all, func(a, b LoggedOf) int { return a.notBefore.Compare(b.notBefore) })
	return all, nil
}

// Log implements Logger.
func (f *File) Log(ctx context.Context, q LogQuery, fn func(Logged) error) (from time.Time, err error) {
	info, err := f.find(ctx, q.Collection)
	if err != nil {
		return from, err
	}
	view, err := f.store.View(ctx, info.Identity)
	if err != nil {
		return from, err
	}
	kept, err := view.Kept(ctx)
	if err != nil {
		return from, err
	}
	after := uint64(0)
	if q.After != nil {
		after = *q.After
	} else if after, from, err = view.OffsetAt(ctx, q.Since); err != nil {
		return from, err
	}
	for at := after; ; {
		p, err := view.ChangedKeys(ctx, at)
		if err != nil {
			return from, err
		}
		for _, c := range p.Changes {
			l := Logged{Type: Modified, Key: c.Key, Seq: c.Seq, Time: c.Time}
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
		if at = p.End; !p.More || at >= kept.Last { // what is stored meanwhile is for the next time
			return from, nil
		}
	}
}

func (q LogQuery) values() url.Values {
	v := url.Values{paramCollection: {q.Collection}, paramSince: {q.Since.Format(time.RFC3339Nano)}}
	if q.After != nil {
		v.Set(paramAfter, strconv.FormatUint(*q.After, 10))
	}
	return v
}

func logQueryOf(v url.Values) (q LogQuery, err error) {
	q = LogQuery{Collection: v.Get(paramCollection)}
	if text := v.Get(paramAfter); text != "" {
		after, err := strconv.ParseUint(text, 10, 64)
		q.After = &after
		return q, err
	}
	q.Since, err = time.Parse(time.RFC3339Nano, v.Get(paramSince))
	return q, err
}

// log streams what has changed.
func (s *Server) log(w http.ResponseWriter, r *http.Request) {
	st := newStream(w)
	q, err := logQueryOf(r.URL.Query())
	if err != nil {
		st.end(ending{}, err)
		return
	}
	end := ending{}
	end.From, err = s.holder.Log(r.Context(), q, func(l Logged) error {
		end.Entries++
		return st.send(frame{Logged: &l}, false)
	})
	st.end(end, err)
}

// Log implements Logger.
func (c *Client) Log(ctx context.Context, q LogQuery, fn func(Logged) error) (from time.Time, err error) {
	in, err := c.stream(ctx, http.MethodGet, pathLog+"?"+q.values().Encode(), nil)
	if err != nil {
		return from, err
	}
	defer func() { _ = in.Close() }() // it was only read
	for got := 0; ; got++ {
		f, err := in.next()
		switch {
		case err != nil:
			return from, err
		case f.Logged != nil:
			if err := fn(*f.Logged); err != nil {
				return from, err
			}
		case f.End == nil || f.End.Entries != got:
			return from, errBroken
		default:
			return f.End.From, nil
		}
	}
}
