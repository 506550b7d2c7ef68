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
	"github.com/larder-dev/larder/store/internal/intake"
	"github.com/larder-dev/larder/store/internal/memtable"
	"github.com/larder-dev/larder/store/internal/resident"
	"github.com/larder-dev/larder/store/internal/state"
)

// Memory is a collection that is kept in memory only. It implements Interface with the semantics of Collection, but
// encodes nothing: it hands out the very objects that it was given.
//
// It applies batches and lists like a Collection (internal/intake), and reads like a Collection with the residency All
// (residents). It has no memtable and no file, so no method waits for a disk.
type Memory struct {
	in intake.Intake
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
		in:   intake.Intake{ID: id, KeyFunc: o.KeyFunc, Limits: intake.Limits{Held: math.MaxInt, Step: math.MaxInt}},
		info: entry.Info{Identity: id, Resource: o.Resource, NextSeq: 1},
	}
	if m.in.KeyFunc == nil {
		m.in.KeyFunc = cache.DeletionHandlingMetaNamespaceKeyFunc
	}
	m.in.Back, m.residents = memoryBack{m}, residents{&m.in, resident.NewTable(&m.in.Hot)}
	m.in.Set.Store(set)
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
	return m.in.MarkMustRelist(ctx, reason)
}

// AddIndexers adds index functions; see Interface. It computes them for all
// objects before it returns, as client-go does.
func (m *Memory) AddIndexers(_ context.Context, indexers cache.Indexers, versions map[string]string) error {
	added, err := index.NewSet(indexers, versions)
	if err != nil {
		return err
	}
	var terms resident.MoreTerms
	return m.in.UntilAdded(func() (bool, error) {
		terms = m.table.MoreTerms(added.WorkingTerms, terms)
		m.in.Front.Lock()
		defer m.in.Front.Unlock()
		set, err := m.in.Set.Load().With(indexers, versions)
		if err != nil || !m.table.AddTerms(added.Names(), terms) {
			return false, err
		}
		m.in.Set.Store(set)
		return true, nil
	})
}

// Indexer returns the collection as a cache.Indexer of client-go.
func (m *Memory) Indexer() *Indexer { return newIndexer(m, &m.in) }

// Apply applies the batch; see Interface.
func (m *Memory) Apply(ctx context.Context, b entry.Batch) (entry.Result, error) {
	return m.in.Apply(ctx, b)
}

// BeginReplace begins a list; see Interface.
func (m *Memory) BeginReplace(ctx context.Context, o ReplaceOptions) (Replacement, error) {
	return beginReplace(ctx, &m.in, o)
}

// Indexers returns the index functions. The map is the caller's.
func (m *Memory) Indexers() cache.Indexers { return m.in.Indexers() }

// memoryBack is a Memory as its intake sees it.
type memoryBack struct{ *Memory }

func (m memoryBack) Encoder(set *index.Set) intake.Encoder {
	return intake.Encoder{KeyFunc: m.in.KeyFunc, Set: set}
}

func (m memoryBack) Backpressure(ctx context.Context, _ bool) error { return ctx.Err() }

func (m memoryBack) TakesIn() error { return nil }

func (m memoryBack) BeforeBatch(
	ctx context.Context, writes []*memtable.Write,
) (map[string]*intake.Pending, entry.Info, error) {
	keys := make(map[string]*intake.Pending, len(writes))
	for _, x := range writes {
		obj := m.table.State(x.Key).Object()
		keys[x.Key] = &intake.Pending{Found: obj != nil, Obj: obj}
	}
	info, err := m.Info(ctx)
	return keys, info, err
}

func (m memoryBack) Put(last []*memtable.Write, info entry.Info, _ *state.Settled) {
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

func (m memoryBack) Look(ctx context.Context, fn func(h intake.Held) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	return fn(memoryHeld{m.Memory})
}

func (m memoryBack) Losses() int { return 0 }

func (m memoryBack) ListEnded() {}

// memoryHeld implements intake.Held for a Memory whose lock is held.
type memoryHeld struct{ m *Memory }

func (h memoryHeld) Info() (entry.Info, error) { return h.m.info, nil }

func (h memoryHeld) Has(key string) bool { return h.m.table.State(key) != nil }

func (h memoryHeld) Get(key string) (intake.HeldObject, error) {
	if s := h.m.table.State(key); s != nil {
		return memoryObject{s}, nil
	}
	return nil, nil
}

func (h memoryHeld) After(key string, fn func(key string, size int) bool) error {
	h.m.table.Each(key, func(key string, _ *resident.State) bool { return fn(key, len(key)) })
	return nil
}

type memoryObject struct{ *resident.State }

func (o memoryObject) Version() (uid, rv string) { return o.UID, o.RV }

func (o memoryObject) Object() (runtime.Object, error) { return o.Obj, nil }

// SameBody returns false: there are no bytes to compare.
func (o memoryObject) SameBody(*memtable.Write) (bool, error) { return false, nil }
