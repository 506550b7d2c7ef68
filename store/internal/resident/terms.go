package resident

import "maps"

// MoreTerms are what more index functions say of states of a table's objects. They are computed under no lock.
type MoreTerms map[*State]map[string][]string

// Of returns the terms of the rows as they are now; those that have been computed before it takes from a. A function
// that fails does not file an object.
func (a MoreTerms) Of(termsOf func(obj any) map[string][]string, rows []*Row) MoreTerms {
	terms := make(MoreTerms, len(rows))
	for _, e := range rows {
		s := e.Now.Load()
		switch {
		case s == nil: // of a key that was removed
		case a[s] != nil:
			terms[s] = a[s]
		default:
			terms[s] = termsOf(s.Obj)
		}
	}
	return terms
}

// AddTerms gives each object its terms of the named indexes, if there are some for every one of them as it is now.
// Terms of those names that are there already are of functions that could not be added in the end.
func (t *Table) AddTerms(names []string, a MoreTerms) bool {
	complete := true
	t.Each("", func(e *Row) bool {
		complete = a[e.Now.Load()] != nil
		return complete
	})
	if !complete {
		return false
	}
	for _, name := range names {
		delete(t.indexes, name)
	}
	t.Each("", func(e *Row) bool {
		next := *e.Now.Load()
		more := a[e.Now.Load()]
		next.Terms = maps.Clone(next.Terms)
		if next.Terms == nil {
			next.Terms = make(map[string][]string, len(more))
		}
		for _, name := range names {
			delete(next.Terms, name)
		}
		maps.Copy(next.Terms, more)
		e.Now.Store(&next)
		t.file(e, more)
		return true
	})
	return true
}
