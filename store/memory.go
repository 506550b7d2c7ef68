package store

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
)

// Memory is a collection that is kept in memory only. It implements Interface
// with the semantics of Collection, but needs no codec: it hands out the very
// objects that it was given.
type Memory struct {
	keyFunc cache.KeyFunc

	mu        sync.RWMutex
	info      Info                                      // guarded by mu
	objects   map[string]*memoryObject                  // guarded by mu
	sorted    []string                                  // the keys in order; nil after one was added or removed; guarded by mu
	set       *indexSet                                 // guarded by mu
	indexes   map[string]map[string]map[string]struct{} // name, value, keys; guarded by mu
	replacing *memoryReplacement                        // guarded by mu
	reported  bool                                      // changes of objects have been reported; guarded by mu
}

var _ Interface = (*Memory)(nil)

type memoryObject struct {
	obj     runtime.Object
	uid, rv string
	terms   map[string][]string
}

// NewMemory returns an empty collection. Options.Codec is not used.
func NewMemory(id Identity, o CollectionOptions) (*Memory, error) {
	id, err := id.Canonical()
	if err != nil {
		return nil, err
	}
	set, err := newIndexSet(o.Indexers, o.IndexVersions)
	if err != nil {
		return nil, fmt.Errorf("collection of %s: %w", id, err)
	}
	m := &Memory{
		keyFunc: o.KeyFunc,
		info:    Info{Identity: id, Resource: o.Resource, NextSeq: 1},
		objects: map[string]*memoryObject{},
		set:     set,
		indexes: map[string]map[string]map[string]struct{}{},
	}
	if m.keyFunc == nil {
		m.keyFunc = cache.DeletionHandlingMetaNamespaceKeyFunc
	}
	return m, nil
}

// Info returns the collection's state; see Interface.
func (m *Memory) Info(ctx context.Context) (Info, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	info := m.info
	info.Newest = slices.Clone(info.Newest)
	return info, ctx.Err()
}

// Apply applies the batch; see Interface and Collection.Apply.
func (m *Memory) Apply(ctx context.Context, b Batch) (Result, error) {
	for {
		if err := ctx.Err(); err != nil {
			return Result{}, err
		}
		set := m.indexSet()
		res, done, err := m.applyEncoded(set, m.encoder(set).encode(b.Ops), b)
		if done || err != nil {
			return res, err
		}
	}
}

func (m *Memory) encoder(set *indexSet) encoder { return encoder{keyFunc: m.keyFunc, set: set} }

func (m *Memory) indexSet() *indexSet {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.set
}

// applyEncoded does the writes, unless index functions were added since their terms were computed.
func (m *Memory) applyEncoded(set *indexSet, e encoded, b Batch) (res Result, done bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.replacing != nil {
		return res, false, ErrReplacing
	}
	if m.set != set {
		return res, false, nil
	}
	res.Skipped = e.skipped
	for _, x := range e.writes {
		old := m.objects[x.key].object()
		ch := changeOf(x.key, old, x.obj)
		if x.del {
			ch = Change{Type: cache.Deleted, Key: x.key, Old: old, New: x.obj}
			m.removeLocked(x.key)
		} else {
			m.putLocked(x)
		}
		res.Changes = append(res.Changes, ch)
	}
	m.info.Newest = dropStale(m.info.Newest, e.stale)
	m.advanceLocked(b)
	m.reported = true
	return res, true, nil
}

func (m *Memory) advanceLocked(b Batch) {
	st := state{Info: m.info}
	st.advance(b)
	m.info = st.Info
}

// putLocked stores x, whose terms are those of the current index functions.
func (m *Memory) putLocked(x *write) {
	old := m.objects[x.key]
	if old == nil {
		m.info.Objects++
		m.sorted = nil
	} else {
		m.unindexLocked(x.key, old.terms)
	}
	m.objects[x.key] = &memoryObject{obj: x.obj, uid: x.uid, rv: x.rv, terms: x.terms}
	m.indexLocked(x.key, x.terms)
	m.info.NextSeq++
	m.info.Newest = offerRef(m.info.Newest, ObjectRef{Key: x.key, UID: x.uid, ResourceVersion: x.rv}, newestRefs)
}

func (m *Memory) removeLocked(key string) {
	m.info.Newest = dropRef(m.info.Newest, key)
	old := m.objects[key]
	if old == nil {
		return
	}
	m.unindexLocked(key, old.terms)
	delete(m.objects, key)
	m.info.Objects--
	m.sorted = nil
}

func (m *Memory) indexLocked(key string, terms map[string][]string) {
	for name, values := range terms {
		index := m.indexes[name]
		if index == nil {
			index = map[string]map[string]struct{}{}
			m.indexes[name] = index
		}
		for _, value := range values {
			if index[value] == nil {
				index[value] = map[string]struct{}{}
			}
			index[value][key] = struct{}{}
		}
	}
}

func (m *Memory) unindexLocked(key string, terms map[string][]string) {
	for name, values := range terms {
		for _, value := range values {
			delete(m.indexes[name][value], key)
			if len(m.indexes[name][value]) == 0 {
				delete(m.indexes[name], value)
			}
		}
	}
}

// object returns the object, or nil of a nil *memoryObject.
func (o *memoryObject) object() runtime.Object {
	if o == nil {
		return nil
	}
	return o.obj
}

// SetMustRelist makes the contents not resumable; see Interface.
func (m *Memory) SetMustRelist(ctx context.Context, reason string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.replacing != nil {
		return ErrReplacing
	}
	m.info.MustRelist = reason
	return ctx.Err()
}

// AddIndexers adds index functions; see Interface. It computes them for all
// objects before it returns, as client-go does.
func (m *Memory) AddIndexers(indexers cache.Indexers, versions map[string]string) error {
	added, err := newIndexSet(indexers, versions)
	if err != nil {
		return err
	}
	terms := map[string]memoryTerms{}
	for {
		m.mu.RLock()
		objects := maps.Clone(m.objects)
		m.mu.RUnlock()
		for key, o := range objects {
			if terms[key].of == o {
				continue
			}
			terms[key] = memoryTerms{of: o, values: added.workingTerms(o.obj)}
		}
		done, err := m.addComputed(indexers, versions, terms)
		if done || err != nil {
			return err
		}
	}
}

// memoryTerms are the terms of one state of an object.
type memoryTerms struct {
	of     *memoryObject
	values map[string][]string
}

// addComputed adds the functions, unless an object has changed since terms were computed.
func (m *Memory) addComputed(indexers cache.Indexers, versions map[string]string, terms map[string]memoryTerms) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	set, err := m.set.with(indexers, versions)
	if err != nil {
		return false, err
	}
	for key, o := range m.objects {
		if terms[key].of != o {
			return false, nil
		}
	}
	for key, o := range m.objects {
		all := maps.Clone(o.terms)
		if all == nil {
			all = map[string][]string{}
		}
		maps.Copy(all, terms[key].values)
		m.objects[key] = &memoryObject{obj: o.obj, uid: o.uid, rv: o.rv, terms: all}
		m.indexLocked(key, terms[key].values)
	}
	m.set = set
	return true, nil
}

// Indexers returns the index functions. The map is the caller's.
func (m *Memory) Indexers() cache.Indexers { return maps.Clone(m.indexSet().funcs) }

// Indexer returns the collection as a cache.Indexer of client-go.
func (m *Memory) Indexer() *Indexer { return newIndexer(m) }

func (m *Memory) indexFunc(index string) (cache.IndexFunc, error) { return m.indexSet().find(index) }

func (m *Memory) keyOf(obj any) (string, error) { return m.keyFunc(obj) }

// keysLocked returns the keys in order. It is called with mu held for writing.
func (m *Memory) keysLocked() []string {
	if m.sorted == nil {
		m.sorted = slices.SortedFunc(maps.Keys(m.objects), cmp.Compare)
	}
	return m.sorted
}
