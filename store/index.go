package store

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"runtime"
	"slices"

	"k8s.io/client-go/tools/cache"
)

// namespaceVersion is the version of client-go's own namespace index, which
// nearly every lister uses and which must not be rebuilt at each start.
const namespaceVersion = "client-go MetaNamespaceIndexFunc 1"

// indexSet is the index functions of a collection at one moment. It is never
// changed: AddIndexers and a finished build put a new one in its place.
type indexSet struct {
	funcs    cache.Indexers
	versions map[string]string
	// ready indexes answer from their entries; the others are being built.
	ready map[string]bool
	// generation grows with every set of other functions.
	generation int
}

func newIndexSet(funcs cache.Indexers, versions map[string]string) (*indexSet, error) {
	s := &indexSet{funcs: cache.Indexers{}, versions: map[string]string{}, ready: map[string]bool{}}
	return s.with(funcs, versions)
}

// with returns the set and more functions. A name that is taken is an error, as in client-go.
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

// withReady returns the set with the named indexes ready.
func (s *indexSet) withReady(names ...string) *indexSet {
	next := *s
	next.ready = maps.Clone(s.ready)
	for _, name := range names {
		if next.funcs[name] != nil { // the file may have an index that nobody has claimed yet
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

// terms returns what the object is filed under in each index that files it.
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

// workingTerms is terms for an object that is stored already: an index whose
// function fails does not file it.
func (s *indexSet) workingTerms(obj any) map[string][]string {
	terms := make(map[string][]string, len(s.funcs))
	for name, fn := range s.funcs {
		if values, err := indexValues(name, fn, obj); err == nil && len(values) > 0 {
			terms[name] = values
		}
	}
	return terms
}

// residentTerms is workingTerms for an object that comes from the file, whose record has the terms of indexes that are
// ready.
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

// indexValues calls an index function; it survives a panic of it. The values
// come back in order, each once.
func indexValues(name string, fn cache.IndexFunc, obj any) (values []string, err error) {
	err = guard("the function", func() error {
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

// guard calls code that is not ours and turns a panic of it into an error.
func guard(what string, fn func() error) (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case runtime.Error:
			err = fmt.Errorf("%s panicked: %w", what, r)
		default: // its text may hold what is in the object
			err = fmt.Errorf("%s panicked with a %T", what, r)
		}
	}()
	return fn()
}

func isNamespaceFunc(fn cache.IndexFunc) bool {
	return reflect.ValueOf(fn).Pointer() == reflect.ValueOf(cache.MetaNamespaceIndexFunc).Pointer()
}
