package store

import (
	"context"
	"fmt"
	"math"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store/internal/index"
	"github.com/larder-dev/larder/store/internal/memtable"
	"github.com/larder-dev/larder/store/internal/resident"
)

// Memory is a collection that is kept in memory only. It implements Interface with the semantics of Collection, but
// encodes nothing: it hands out the very objects that it was given.
//
// It applies batches and lists like a Collection (intake), and reads like a Collection with the residency All
// (residents). It has no memtable and no file, so no method waits for a disk.
type Memory struct {
	intake
	residents
	mu   sync.RWMutex // held while table and info change
	info entry.Info   // guarded by mu
}

var _ Interface = (*Memory)(nil)

// NewMemory returns an empty collection. Options.Codec is not used.
func NewMemory(id entry.Identity, o CollectionOptions) (*Memory, error) {
	id, err := id.Canonical()
	if err != nil {
		return nil, err
	}
	set, err := index.NewSet(o.Indexers, o.IndexVersions)
	if err != nil {
		return nil, fmt.Errorf("collection of %s: %w", id, err)
	}
	m := &Memory{
		intake: intake{id: id, keyFunc: o.KeyFunc, limits: limits{held: math.MaxInt, step: math.MaxInt}},
		info:   entry.Info{Identity: id, Resource: o.Resource, NextSeq: 1},
	}
	if m.keyFunc == nil {
		m.keyFunc = cache.DeletionHandlingMetaNamespaceKeyFunc
	}
	m.back, m.residents = m, residents{&m.intake, resident.NewTable(&m.hot)}
	m.set.Store(set)
	return m, nil
}

// Info returns the collection's state; see Interface.
func (m *Memory) Info(ctx context.Context) (entry.Info, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.info.Clone(), ctx.Err()
}

// SetMustRelist makes the contents not resumable; see Interface.
func (m *Memory) SetMustRelist(ctx context.Context, reason string) error {
	return m.markMustRelist(ctx, reason)
}

// AddIndexers adds index functions; see Interface. It computes them for all
// objects before it returns, as client-go does.
func (m *Memory) AddIndexers(_ context.Context, indexers cache.Indexers, versions map[string]string) error {
	added, err := index.NewSet(indexers, versions)
	if err != nil {
		return err
	}
	var terms resident.MoreTerms
	return m.untilAdded(func() (bool, error) {
		terms = m.table.MoreTerms(added.WorkingTerms, terms)
		m.front.Lock()
		defer m.front.Unlock()
		set, err := m.set.Load().With(indexers, versions)
		if err != nil || !m.table.AddTerms(added.Names(), terms) {
			return false, err
		}
		m.set.Store(set)
		return true, nil
	})
}

// Indexer returns the collection as a cache.Indexer of client-go.
func (m *Memory) Indexer() *Indexer { return newIndexer(m, &m.hot) }

// The methods of back follow: a Memory is the back of its own intake.

func (m *Memory) encoder(set *index.Set) encoder { return encoder{keyFunc: m.keyFunc, set: set} }

func (m *Memory) backpressure(ctx context.Context, _ bool) error { return ctx.Err() }

func (m *Memory) takesIn() error { return nil }

func (m *Memory) beforeBatch(ctx context.Context, writes []*memtable.Write) (map[string]*pending, entry.Info, error) {
	keys := make(map[string]*pending, len(writes))
	for _, x := range writes {
		obj := m.table.State(x.Key).Object()
		keys[x.Key] = &pending{found: obj != nil, obj: obj}
	}
	info, err := m.Info(ctx)
	return keys, info, err
}

func (m *Memory) put(last []*memtable.Write, info entry.Info, _ *settled) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, x := range last {
		if !x.Del {
			info.NextSeq++
		}
	}
	m.table.Apply(last)
	m.info = info
}

func (m *Memory) look(ctx context.Context, fn func(h held) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	return fn(memoryHeld{m})
}

func (m *Memory) losses() int { return 0 }

func (m *Memory) listEnded() {}

// memoryHeld implements held for a Memory whose lock is held.
type memoryHeld struct{ m *Memory }

func (h memoryHeld) info() (entry.Info, error) { return h.m.info, nil }

func (h memoryHeld) has(key string) bool { return h.m.table.State(key) != nil }

func (h memoryHeld) get(key string) (heldObject, error) {
	if s := h.m.table.State(key); s != nil {
		return memoryObject{s}, nil
	}
	return nil, nil
}

func (h memoryHeld) after(key string, fn func(key string, size int) bool) error {
	h.m.table.Each(key, func(key string, _ *resident.State) bool { return fn(key, len(key)) })
	return nil
}

type memoryObject struct{ *resident.State }

func (o memoryObject) version() (uid, rv string) { return o.UID, o.RV }

func (o memoryObject) object() (runtime.Object, error) { return o.Obj, nil }

// sameBody returns false: there are no bytes to compare.
func (o memoryObject) sameBody(*memtable.Write) (bool, error) { return false, nil }
