package engine

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/internal/base"
	"github.com/larder-dev/larder/store/internal/format"
)

// ErrNoIndex means that there is no index of this name.
var ErrNoIndex = errors.New("no such index")

// noIndex is the error for an unknown index name. It has client-go's error text, which programs compare.
type noIndex string

func (n noIndex) Error() string      { return fmt.Sprintf("Index with name %s does not exist", string(n)) }
func (noIndex) Is(target error) bool { return target == ErrNoIndex }

// namespaceVersion is the version of client-go's namespace index, so that a new process does not rebuild that index.
const namespaceVersion = "client-go MetaNamespaceIndexFunc 1"

// IndexSet holds the index functions of a collection. It is immutable: its methods return changed copies.
type IndexSet struct {
	funcs    cache.Indexers
	versions map[string]string
	// ready has the names of the indexes with complete entries in the file. The other indexes are being built.
	ready      map[string]bool
	generation int
	// failed holds the stored objects that lack entries because an index function has failed for them.
	failed *failures
}

// NewIndexSet returns a set of functions and their versions. No index is ready. NewIndexSet fails in the same cases as
// With.
func NewIndexSet(funcs cache.Indexers, versions map[string]string) (*IndexSet, error) {
	s := &IndexSet{funcs: cache.Indexers{}, versions: map[string]string{}, ready: map[string]bool{},
		failed: &failures{}}
	return s.With(funcs, versions)
}

// Only returns a set with only funcs. Both sets share the failures that Err reports.
func (s *IndexSet) Only(funcs cache.Indexers, versions map[string]string) (*IndexSet, error) {
	only, err := NewIndexSet(funcs, versions)
	if err == nil {
		only.failed = s.failed
	}
	return only, err
}

// With returns a copy of the set with funcs added. Like client-go, it fails if a name is taken.
func (s *IndexSet) With(funcs cache.Indexers, versions map[string]string) (*IndexSet, error) {
	next := &IndexSet{
		funcs: maps.Clone(s.funcs), versions: maps.Clone(s.versions), ready: s.ready, generation: s.generation + 1,
		failed: s.failed,
	}
	if taken := sets.KeySet(s.funcs).Intersection(sets.KeySet(funcs)); len(taken) > 0 {
		return nil, fmt.Errorf("indexer conflict: %v: there are indexes of these names; choose others", taken)
	}
	for _, name := range slices.Sorted(maps.Keys(funcs)) {
		switch {
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

// WithReady returns a copy of the set in which the named indexes are ready. It ignores names that the set lacks: the
// file may have an index whose function this process has not added yet.
func (s *IndexSet) WithReady(names ...string) *IndexSet {
	next := *s
	next.ready = maps.Clone(s.ready)
	for _, name := range names {
		if next.funcs[name] != nil {
			next.ready[name] = true
		}
	}
	return &next
}

// Without returns a copy of the set without the named indexes.
func (s *IndexSet) Without(names []string) *IndexSet {
	next := &IndexSet{
		funcs: maps.Clone(s.funcs), versions: maps.Clone(s.versions), ready: maps.Clone(s.ready),
		generation: s.generation + 1, failed: s.failed,
	}
	for _, name := range names {
		delete(next.funcs, name)
		delete(next.versions, name)
		delete(next.ready, name)
	}
	return next
}

// Err returns the reason for which an index lacks a stored object, or nil.
func (s *IndexSet) Err() error {
	if err := s.failed.err(); err != nil {
		return fmt.Errorf("an object is not in an index, and look-ups lack it until it changes: %w", err)
	}
	return nil
}

// Stored clears the failures of an object that was deleted, or stored with its entries in all indexes.
func (s *IndexSet) Stored(key string) { s.failed.drop(key) }

// AllStored clears the failures beyond the limit of kept failures. Call it after Stored for every object.
func (s *IndexSet) AllStored() { s.failed.dropMore() }

// Lacks makes Err report an object that was stored without entries because of err. Call it after Stored.
func (s *IndexSet) Lacks(key string, err error) { s.failed.set("", key, err) }

// Generation grows whenever the functions change, but not when an index becomes ready. Terms that were computed with
// another generation are out of date.
func (s *IndexSet) Generation() int { return s.generation }

// Ready reports whether the entries of the named index in the file are complete.
func (s *IndexSet) Ready(name string) bool { return s.ready[name] }

// Unready returns the names of the indexes that are not ready, in order.
func (s *IndexSet) Unready() []string {
	return slices.DeleteFunc(s.Names(), func(name string) bool { return s.ready[name] })
}

// Names returns the names of the indexes, in order.
func (s *IndexSet) Names() []string { return slices.Sorted(maps.Keys(s.funcs)) }

// Funcs returns the index functions. The caller owns the map.
func (s *IndexSet) Funcs() cache.Indexers { return maps.Clone(s.funcs) }

// ReadsObjects reports whether an index function needs more of an object than the namespace.
func (s *IndexSet) ReadsObjects() bool {
	for _, fn := range s.funcs {
		if !isNamespaceFunc(fn) {
			return true
		}
	}
	return false
}

// Find returns the function of the named index. It fails with ErrNoIndex for an unknown name.
func (s *IndexSet) Find(name string) (cache.IndexFunc, error) {
	fn := s.funcs[name]
	if fn == nil {
		return nil, noIndex(name)
	}
	return fn, nil
}

// Claim changes states, the states of the indexes in the file, to those of the set's functions. It returns the names of
// the ready indexes. If empty is true, the file holds no objects and is writable; then every index is ready.
func (s *IndexSet) Claim(states map[string]format.IndexState, empty bool) (ready []string) {
	for name := range s.funcs {
		have, known := states[name]
		want := format.IndexState{Version: s.versions[name]}
		// A function without a version may differ between processes, so its entries are trusted only in this process.
		same := known && have.Version == want.Version && (want.Version != "" || s.ready[name])
		want.Ready = empty || same && have.Ready
		states[name] = want
		if want.Ready {
			ready = append(ready, name)
		}
	}
	return ready
}

func isNamespaceFunc(fn cache.IndexFunc) bool {
	return reflect.ValueOf(fn).Pointer() == reflect.ValueOf(cache.MetaNamespaceIndexFunc).Pointer()
}

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

// maxFailures is the maximum number of objects for which failures keeps errors.
const maxFailures = 1000

// failures holds the stored objects that an index lacks because its function has failed for them. All changed copies of
// an IndexSet share one failures.
type failures struct {
	some atomic.Bool // some is false without failures, so that writes need no lock.

	mu   sync.Mutex
	of   map[string]map[string]error // of has the errors by key and index name, up to maxFailures; guarded by mu.
	more error                       // more is the error of one object beyond maxFailures; guarded by mu.
}

// set stores err, the result of the named index's function for a stored object. A nil err removes an earlier failure.
func (f *failures) set(name, key string, err error) {
	if err == nil && !f.some.Load() {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case err == nil:
		if delete(f.of[key], name); len(f.of[key]) == 0 {
			delete(f.of, key)
		}
	case f.of[key] != nil:
		f.of[key][name] = err
	case len(f.of) >= maxFailures:
		f.more = err
	default:
		if f.of == nil {
			f.of = map[string]map[string]error{}
		}
		f.of[key] = map[string]error{name: err}
	}
	f.some.Store(len(f.of) > 0 || f.more != nil)
}

func (f *failures) drop(key string) {
	if !f.some.Load() {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.of, key)
	f.some.Store(len(f.of) > 0 || f.more != nil)
}

func (f *failures) dropMore() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.more = nil
	f.some.Store(len(f.of) > 0)
}

func (f *failures) err() error {
	if !f.some.Load() {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.of) == 0 {
		return f.more
	}
	key := slices.Min(slices.Collect(maps.Keys(f.of)))
	name := slices.Min(slices.Collect(maps.Keys(f.of[key])))
	return fmt.Errorf("object %q: %w", key, f.of[key][name])
}
