package engine

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/store/internal/format"
)

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

func (s *IndexSet) Unready() []string {
	return slices.DeleteFunc(s.Names(), func(name string) bool { return s.ready[name] })
}

func (s *IndexSet) Names() []string { return slices.Sorted(maps.Keys(s.funcs)) }

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
