package store

import "maps"

// moreTerms are what more index functions say of states of a table's objects. They are computed under no lock.
type moreTerms map[*rowState]map[string][]string

// compute calls the functions for e as it is now, unless that has been done. One that fails does not file it.
func (a moreTerms) compute(added *indexSet, e *row) {
	if s := e.now.Load(); s != nil && a[s] == nil { // nil is of a key that was removed
		a[s] = added.workingTerms(s.obj)
	}
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
