package store

import "maps"

// moreTerms are what more index functions say of states of a table's objects. They are computed under no lock.
type moreTerms map[*rowState]map[string][]string

// of returns the terms of the rows as they are now; those that have been computed before it takes from a. A function that fails
// does not file an object.
func (a moreTerms) of(added *indexSet, rows []*row) moreTerms {
	terms := make(moreTerms, len(rows))
	for _, e := range rows {
		s := e.now.Load()
		switch {
		case s == nil: // of a key that was removed
		case a[s] != nil:
			terms[s] = a[s]
		default:
			terms[s] = added.workingTerms(s.obj)
		}
	}
	return terms
}

// addTerms gives each object its added terms, if there are some for every one of them as it is now. Terms of those names that are there
// already are of functions that could not be added in the end.
func (t *table) addTerms(added *indexSet, a moreTerms) bool {
	complete := true
	t.each("", func(e *row) bool {
		complete = a[e.now.Load()] != nil
		return complete
	})
	if !complete {
		return false
	}
	for name := range added.funcs {
		delete(t.indexes, name)
	}
	t.each("", func(e *row) bool {
		next := *e.now.Load()
		more := a[e.now.Load()]
		next.terms = maps.Clone(next.terms)
		if next.terms == nil {
			next.terms = make(map[string][]string, len(more))
		}
		for name := range added.funcs {
			delete(next.terms, name)
		}
		maps.Copy(next.terms, more)
		e.now.Store(&next)
		t.file(e, more)
		return true
	})
	return true
}
