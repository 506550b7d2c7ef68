package engine

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/internal/base"
)

// IndexValues calls the function of the named index. The values are sorted and unique. A panic becomes an error.
func IndexValues(name string, fn cache.IndexFunc, obj any) (values []string, err error) {
	err = base.Try("the function", func() error {
		values, err = fn(obj)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("index %q: %w", name, err)
	}
	if len(values) > 1 {
		values = slices.Compact(slices.Sorted(slices.Values(values)))
	}
	return values, nil
}

// Terms returns the values of the object in each index, by index name. Indexes without values are omitted. If functions
// fail, their indexes are omitted, and the error is from one of these functions.
func (s *IndexSet) Terms(obj any) (terms map[string][]string, err error) {
	for name, fn := range s.funcs {
		values, failed := IndexValues(name, fn, obj)
		if failed != nil {
			err = failed
		}
		terms = s.add(terms, name, values)
	}
	return terms, err
}

// WorkingTerms returns the values of a stored object in each index, by index name. Indexes whose functions fail are
// omitted, and Err reports the failures.
func (s *IndexSet) WorkingTerms(key string, obj any) (terms map[string][]string) {
	for name, fn := range s.funcs {
		values, err := IndexValues(name, fn, obj)
		s.failed.set(name, key, err)
		terms = s.add(terms, name, values)
	}
	return terms
}

// TermsOf returns the values, by index name, of an object that was read from the file. For ready indexes it uses
// stored, the terms in the record's header. For the others it calls the index functions, and Err reports their errors.
func (s *IndexSet) TermsOf(stored map[string][]string, key string, obj any) (terms map[string][]string) {
	for name, fn := range s.funcs {
		values := stored[name]
		if !s.ready[name] {
			var err error
			values, err = IndexValues(name, fn, obj)
			s.failed.set(name, key, err)
		}
		terms = s.add(terms, name, values)
	}
	return terms
}

// SameTerms reports whether a and b are equal in all ready indexes.
func (s *IndexSet) SameTerms(a, b map[string][]string) bool {
	for name := range s.funcs {
		if s.ready[name] && !slices.Equal(a[name], b[name]) {
			return false
		}
	}
	return true
}

// Compute returns the values of a stored object in the named indexes, by index name. Indexes whose functions fail are
// omitted, and report is called with each error.
func (s *IndexSet) Compute(names []string, key string, obj any, report func(error)) (terms map[string][]string) {
	for _, name := range names {
		values, err := IndexValues(name, s.funcs[name], obj)
		if s.failed.set(name, key, err); err != nil {
			report(err)
		}
		terms = s.add(terms, name, values)
	}
	return terms
}

// ReplaceTerms returns a copy of terms in which the named indexes have the values in by.
func ReplaceTerms(terms map[string][]string, names []string, by map[string][]string) map[string][]string {
	terms = maps.Clone(terms)
	if terms == nil {
		terms = make(map[string][]string, len(by))
	}
	for _, name := range names {
		if delete(terms, name); len(by[name]) > 0 {
			terms[name] = by[name]
		}
	}
	return terms
}

func (s *IndexSet) add(terms map[string][]string, name string, values []string) map[string][]string {
	if len(values) == 0 {
		return terms
	}
	if terms == nil {
		terms = make(map[string][]string, len(s.funcs))
	}
	terms[name] = values
	return terms
}
