package source

import (
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store/query"
)

// selection makes of changes of a collection the events of what one query selects. An object that ceases to be selected
// is told as Deleted, and one that begins to be as Added: for that the keys of what has been told are kept, if there is
// a selector.
type selection struct {
	query  Query
	parsed query.Query
	// known are the keys of what is selected; nil if namespace and name, which do not change, are all there is.
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

// learn notes an object that is selected, and told of or known otherwise.
func (s *selection) learn(key string) {
	if s.known != nil {
		s.known[key] = struct{}{}
	}
}

// change is one change as a selection sees it.
type change struct {
	key string
	// object is the last state; nil of one that is gone if nobody knows it.
	object  runtime.Object
	deleted bool
	// created: it was not there before.
	created bool
	// unsure: it is not known whether the object was selected before.
	unsure bool
}

// event returns what to tell of a change, if anything.
func (s *selection) event(c change) (e Event, ok bool, err error) {
	if !s.query.reaches(c.key) {
		return e, false, nil
	}
	_, told := s.known[c.key]
	told = told || s.known == nil
	selected := !c.deleted
	if selected && s.known != nil {
		if selected, err = s.parsed.Matches(c.object); err != nil {
			return e, false, err
		}
	}
	switch {
	case selected && (c.created || !told):
		e.Type = Added
		s.learn(c.key)
	case selected:
		e.Type = Modified
	case !told && (!c.unsure || c.created):
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
