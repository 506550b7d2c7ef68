package resident

import "maps"

// MoreTerms has the index terms of newly added index functions, by object state and index name. They are computed
// without a lock.
type MoreTerms map[*State]map[string][]string

// Of returns the terms of the current states of the rows. It takes the terms of a state from a if a has them, and calls
// termsOf otherwise. termsOf leaves out an index whose function fails.
func (a MoreTerms) Of(termsOf func(obj any) map[string][]string, rows []*Row) MoreTerms {
	terms := make(MoreTerms, len(rows))
	for _, e := range rows {
		s := e.Now.Load()
		known, ok := a[s]
		switch {
		case s == nil: // the key was removed
		case ok:
			terms[s] = known
		default:
			terms[s] = termsOf(s.Obj)
		}
	}
	return terms
}

// AddTerms adds the terms in a to the objects of the table, for the indexes in names. It changes nothing and returns
// false if a has no terms for the current state of some object. Existing terms of these indexes are replaced: they are
// left over from an earlier attempt to add the index functions that failed.
func (t *Table) AddTerms(names []string, a MoreTerms) bool {
	complete := true
	t.Each("", func(e *Row) bool {
		_, complete = a[e.Now.Load()]
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
