package store

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store/internal/memtable"
	"github.com/larder-dev/larder/store/internal/resident"
)

// Memory is a collection that is kept in memory only. It implements Interface
// with the semantics of Collection, but needs no codec: it hands out the very
// objects that it was given.
type Memory struct {
	keyFunc cache.KeyFunc
	pause   pause // of those who write, taken before mu

	mu        sync.RWMutex
	info      Info               // guarded by mu
	table     *resident.Table    // guarded by mu, but for get while hot has its keys
	set       *indexSet          // guarded by mu
	replacing *memoryReplacement // guarded by mu
	reported  bool               // changes of objects have been reported; guarded by mu

	// hot has the keys of table, but not while several of them change.
	hot atomic.Pointer[resident.KeyMap]
}

var _ Interface = (*Memory)(nil)

// NewMemory returns an empty collection. Options.Codec is not used.
func NewMemory(id entry.Identity, o CollectionOptions) (*Memory, error) {
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
		table:   resident.NewTable(),
		set:     set,
	}
	if m.keyFunc == nil {
		m.keyFunc = cache.DeletionHandlingMetaNamespaceKeyFunc
	}
	m.hot.Store(m.table.ByKey)
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
		if err := m.pause.wait(ctx); err != nil {
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
	defer m.changingLocked(len(e.writes))()
	for _, x := range e.writes {
		old := m.table.Get(x.Key)
		ch := changeOf(x.Key, old, x.Obj)
		if x.Del {
			ch = Change{Type: cache.Deleted, Key: x.Key, Old: old, New: x.Obj}
		}
		ch.Contradicts = (&pending{found: old != nil, obj: old}).contradicts(x)
		if x.Del {
			m.removeLocked(x.Key)
		} else {
			m.putLocked(x)
		}
		res.Changes = append(res.Changes, ch)
	}
	m.info.excuse(res.Changes, e.writes, b)
	m.info.noteBatch(e.writes, e)
	m.advanceLocked(b)
	m.reported = true
	return res, true, nil
}

// changingLocked has reads by key wait for the lock while several keys change, until done is called.
func (m *Memory) changingLocked(keys int) (done func()) {
	if keys < 2 {
		return func() {}
	}
	m.hot.Store(nil)
	return func() { m.hot.Store(m.table.ByKey) }
}

func (m *Memory) advanceLocked(b Batch) {
	m.info.advance(b)
}

// putLocked stores x, whose terms are those of the current index functions.
func (m *Memory) putLocked(x *memtable.Write) {
	if m.table.Put(x.Key, residentState(x)) {
		m.info.Objects++
	}
	m.info.NextSeq++
	m.info.Newest = offerRef(m.info.Newest, entry.ObjectRef{Key: x.Key, UID: x.UID, ResourceVersion: x.RV}, newestRefs)
}

// residentState is what x leaves in a table.
func residentState(x *memtable.Write) *resident.State {
	return &resident.State{Obj: x.Obj, UID: x.UID, RV: x.RV, Terms: x.Terms}
}

func (m *Memory) removeLocked(key string) {
	m.info.Newest = dropRef(m.info.Newest, key)
	if m.table.Remove(key) {
		m.info.Objects--
	}
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
func (m *Memory) AddIndexers(_ context.Context, indexers cache.Indexers, versions map[string]string) error {
	added, err := newIndexSet(indexers, versions)
	if err != nil {
		return err
	}
	var terms resident.MoreTerms
	for round := 0; ; round++ {
		if round == patience {
			defer m.pause.begin()()
		}
		terms = terms.Of(added.workingTerms, m.rows())
		done, err := m.addComputed(added, indexers, versions, terms)
		if done || err != nil {
			return err
		}
	}
}

func (m *Memory) rows() (rows []*resident.Row) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	m.table.Each("", func(e *resident.Row) bool {
		rows = append(rows, e)
		return true
	})
	return rows
}

// addComputed adds the functions, unless an object has changed since terms were computed.
func (m *Memory) addComputed(
	added *indexSet, indexers cache.Indexers, versions map[string]string, terms resident.MoreTerms,
) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	set, err := m.set.with(indexers, versions)
	if err != nil {
		return false, err
	}
	if !m.table.AddTerms(added.names(), terms) {
		return false, nil
	}
	m.set = set
	return true, nil
}

// Indexers returns the index functions. The map is the caller's.
func (m *Memory) Indexers() cache.Indexers { return maps.Clone(m.indexSet().funcs) }

// Indexer returns the collection as a cache.Indexer of client-go.
func (m *Memory) Indexer() *Indexer { return newIndexer(m, &m.hot) }

func (m *Memory) indexFunc(index string) (cache.IndexFunc, error) { return m.indexSet().find(index) }

func (m *Memory) keyOf(obj any) (string, error) { return m.keyFunc(obj) }
