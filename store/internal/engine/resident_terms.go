package engine

import "maps"

// MoreTerms holds the index terms of newly added index functions, by object state and index name.
type MoreTerms map[*ResidentObject]map[string][]string

// MoreTerms returns the terms of all objects. It computes them with termsOf, which it calls under no lock. termsOf
// omits an index whose function fails.
func (t *ResidentTable) MoreTerms(termsOf func(key string, obj any) map[string][]string) MoreTerms {
	var keys []string
	var states []*ResidentObject
	t.Each("", func(key string, s *ResidentObject) bool {
		keys, states = append(keys, key), append(states, s)
		return true
	})
	terms := make(MoreTerms, len(states))
	for i, s := range states {
		terms[s] = termsOf(keys[i], s.Obj)
	}
	return terms
}

// AddTerms adds the terms in a to the objects of the table, for the indexes in names. If a has no terms for the current
// state of some object, it changes nothing and returns false. It replaces existing terms of these indexes: a failed
// earlier attempt to add the index functions may have left them.
func (t *ResidentTable) AddTerms(names []string, a MoreTerms) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	complete := true
	t.eachLocked("", func(e *row) bool {
		_, complete = a[e.now]
		return complete
	})
	if !complete {
		return false
	}
	for _, name := range names {
		delete(t.indexes, name)
	}
	t.eachLocked("", func(e *row) bool {
		next := *e.now
		more := a[e.now]
		next.Terms = maps.Clone(next.Terms)
		if next.Terms == nil {
			next.Terms = make(map[string][]string, len(more))
		}
		for _, name := range names {
			delete(next.Terms, name)
		}
		maps.Copy(next.Terms, more)
		e.now = &next
		t.file(e, more)
		return true
	})
	return true
}
