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

// addTerms gives each object its added terms, if there are some for every one of them as it is now.
func (t *table) addTerms(a moreTerms) bool {
	complete := true
	t.each("", func(e *row) bool {
		complete = a[e.now.Load()] != nil
		return complete
	})
	if !complete {
		return false
	}
	t.each("", func(e *row) bool {
		now := e.now.Load()
		if added := a[now]; len(added) > 0 {
			next := *now
			if next.terms = maps.Clone(now.terms); next.terms == nil {
				next.terms = map[string][]string{}
			}
			maps.Copy(next.terms, added)
			e.now.Store(&next)
			t.file(e, added)
		}
		return true
	})
	return true
}
