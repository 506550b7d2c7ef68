package store

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/internal/guest"
)

// namespaceVersion is the version of client-go's own namespace index, which
// nearly every lister uses and which must not be rebuilt at each start.
const namespaceVersion = "client-go MetaNamespaceIndexFunc 1"

// indexSet holds the index functions of a collection at one moment. It is
// immutable: AddIndexers and a finished build replace it by a new one.
type indexSet struct {
	funcs    cache.Indexers
	versions map[string]string
	// ready has the names of the indexes whose entries in the file are complete; the other indexes are being built.
	ready map[string]bool
	// generation grows whenever the functions change, not when an index becomes ready.
	generation int
}

func newIndexSet(funcs cache.Indexers, versions map[string]string) (*indexSet, error) {
	s := &indexSet{funcs: cache.Indexers{}, versions: map[string]string{}, ready: map[string]bool{}}
	return s.with(funcs, versions)
}

// with returns a copy of the set with funcs added. It fails if a name is taken, as client-go does.
func (s *indexSet) with(funcs cache.Indexers, versions map[string]string) (*indexSet, error) {
	next := &indexSet{
		funcs: maps.Clone(s.funcs), versions: maps.Clone(s.versions), ready: maps.Clone(s.ready),
		generation: s.generation + 1,
	}
	for _, name := range slices.Sorted(maps.Keys(funcs)) {
		switch _, taken := s.funcs[name]; {
		case taken:
			return nil, fmt.Errorf("index %q: there is one of that name; choose another name", name)
		case name == "":
			return nil, errors.New("an index must have a name")
		case funcs[name] == nil:
			return nil, fmt.Errorf("index %q has no function", name)
		}
		next.funcs[name] = funcs[name]
		next.versions[name] = versions[name]
		if versions[name] == "" && isNamespaceFunc(funcs[name]) {
			next.versions[name] = namespaceVersion
		}
	}
	return next, nil
}

// withReady returns a copy of the set in which the named indexes are ready.
func (s *indexSet) withReady(names ...string) *indexSet {
	next := *s
	next.ready = maps.Clone(s.ready)
	for _, name := range names {
		if next.funcs[name] != nil { // the file may have an index whose function this process has not added yet
			next.ready[name] = true
		}
	}
	return &next
}

// building returns the names of the indexes that are not ready, in order.
func (s *indexSet) building() []string {
	var names []string
	for name := range s.funcs {
		if !s.ready[name] {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// names returns the names of the indexes.
func (s *indexSet) names() []string { return slices.Collect(maps.Keys(s.funcs)) }

// find returns the function of the named index.
func (s *indexSet) find(name string) (cache.IndexFunc, error) {
	fn := s.funcs[name]
	if fn == nil {
		return nil, fmt.Errorf("index %q: %w", name, ErrNoIndex)
	}
	return fn, nil
}

// terms returns the values of the object in each index, by index name. Indexes in which it has none are left out. It
// fails if an index function does.
func (s *indexSet) terms(obj any) (map[string][]string, error) {
	var terms map[string][]string
	for name, fn := range s.funcs {
		values, err := indexValues(name, fn, obj)
		if err != nil {
			return nil, err
		}
		if len(values) > 0 {
			if terms == nil {
				terms = make(map[string][]string, len(s.funcs))
			}
			terms[name] = values
		}
	}
	return terms, nil
}

// workingTerms is terms for an object that is already stored: an index whose
// function fails is left out.
func (s *indexSet) workingTerms(obj any) map[string][]string {
	terms := make(map[string][]string, len(s.funcs))
	for name, fn := range s.funcs {
		if values, err := indexValues(name, fn, obj); err == nil && len(values) > 0 {
			terms[name] = values
		}
	}
	return terms
}

// residentTerms is workingTerms for an object that was read from the file. It takes the terms of ready indexes from
// stored, the terms of its record, and computes the others.
func (s *indexSet) residentTerms(stored map[string][]string, obj any) map[string][]string {
	terms := make(map[string][]string, len(s.funcs))
	for name, fn := range s.funcs {
		values := stored[name]
		if !s.ready[name] {
			var err error
			if values, err = indexValues(name, fn, obj); err != nil {
				continue
			}
		}
		if len(values) > 0 {
			terms[name] = values
		}
	}
	return terms
}

// indexValues calls an index function and turns a panic into an error. It
// returns the values sorted, without duplicates.
func indexValues(name string, fn cache.IndexFunc, obj any) (values []string, err error) {
	err = guest.Try("the function", func() error {
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

func isNamespaceFunc(fn cache.IndexFunc) bool {
	return reflect.ValueOf(fn).Pointer() == reflect.ValueOf(cache.MetaNamespaceIndexFunc).Pointer()
}
