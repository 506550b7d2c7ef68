package source

import (
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store/query"
)

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
