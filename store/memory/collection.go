package memory

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/base"
	"github.com/larder-dev/larder/store"
	"github.com/larder-dev/larder/store/indexer"
	"github.com/larder-dev/larder/store/internal/crypt"
	"github.com/larder-dev/larder/store/internal/engine"
)

// Collection is a collection that is kept in memory only. It implements store.Interface; make one with New.
type Collection struct {
	in engine.Intake
	engine.ResidentReader
	mu   sync.RWMutex // held while Table and info change
	info entry.Info   // the collection's state; guarded by mu
}

var _ store.Interface = (*Collection)(nil)

// New returns an empty collection. Of the options it uses KeyFunc, Indexers, IndexVersions and Resource. It fails if
// the identity is not valid, or an index has no name or function.
func New(id entry.Identity, o store.CollectionOptions) (*Collection, error) {
	id, err := id.Canonical()
	if err != nil {
		return nil, err
	}
	set, err := engine.NewIndexSet(o.Indexers, o.IndexVersions)
	if err != nil {
		return nil, fmt.Errorf("collection of %s: %w", id, err)
	}
	m := &Collection{
		in: engine.Intake{ID: id, KeyFunc: o.KeyFunc, Limits: engine.ReplaceLimits{Held: math.MaxInt, Step: math.MaxInt},
			Indexing: base.NewMutex()},
		info: entry.Info{Identity: id, Resource: o.Resource, NextSeq: 1},
	}
	if m.in.KeyFunc == nil {
		m.in.KeyFunc = cache.DeletionHandlingMetaNamespaceKeyFunc
	}
	m.in.Set.Store(set)
	m.in.Back, m.ResidentReader = back{m}, engine.ResidentReader{
		Table: engine.NewResidentTable(), Set: &m.in.Set, CustomKeys: engine.CustomKeys(o.KeyFunc),
	}
	return m, nil
}

// Info returns the collection's state; see store.Interface.
func (m *Collection) Info(ctx context.Context) (entry.Info, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.info.Clone(), ctx.Err()
}

// SetMustRelist sets Info.MustRelist; see store.Interface.
func (m *Collection) SetMustRelist(ctx context.Context, reason string) error {
	return m.in.MarkMustRelist(ctx, reason)
}

// AddIndexers adds index functions; see store.Interface. Writers wait while it computes them for all objects.
func (m *Collection) AddIndexers(ctx context.Context, indexers cache.Indexers, versions map[string]string) error {
	if err := m.in.Indexing.LockContext(ctx); err != nil {
		return err
	}
	defer m.in.Indexing.Unlock()
	set, err := m.in.Set.Load().With(indexers, versions)
	if err != nil {
		return err
	}
	added, err := m.in.Set.Load().Only(indexers, versions)
	if err != nil {
		return err
	}
	defer m.in.Pause()()
	terms := m.Table.MoreTerms(added.WorkingTerms)
	m.in.Front.Lock()
	defer m.in.Front.Unlock()
	m.Table.AddTerms(added.Names(), terms)
	m.in.Set.Store(set)
	return nil
}

// Indexer returns the collection as a cache.Indexer of client-go.
func (m *Collection) Indexer() *indexer.Indexer {
	return indexer.New(m, &m.in, func() (engine.ResidentReader, bool) { return m.ResidentReader, true })
}

// Apply applies the batch; see store.Interface.
func (m *Collection) Apply(ctx context.Context, b entry.Batch) (entry.Result, error) {
	return m.in.Apply(ctx, b)
}

// BeginReplace begins a list; see store.Interface.
func (m *Collection) BeginReplace(ctx context.Context, o store.ReplaceOptions) (store.Replacement, error) {
	r, err := m.in.Begin(ctx, engine.ReplaceOptions(o))
	if err != nil {
		return nil, err // not r: a nil *Replacement in the interface would not equal nil
	}
	return r, nil
}

// Indexers returns the index functions. The map is the caller's.
func (m *Collection) Indexers() cache.Indexers { return m.in.Indexers() }

// back implements engine.Back, the storage behind the code that receives batches and lists.
type back struct{ *Collection }

// Compressor implements engine.Back. It returns nil, since there are no records.
func (back) Compressor() *crypt.Compressor { return nil }

func (m back) Encoder(set *engine.IndexSet) engine.Encoder {
	return engine.Encoder{KeyFunc: m.in.KeyFunc, Set: set}
}

func (m back) Backpressure(ctx context.Context, _ bool) error { return ctx.Err() }

func (m back) CheckOpen() error { return nil }

func (m back) BeforeBatch(
	ctx context.Context, writes []*engine.Write,
) (map[string]*engine.Pending, entry.Info, error) {
	keys := make(map[string]*engine.Pending, len(writes))
	for _, x := range writes {
		keys[x.Key] = &engine.Pending{}
		if s := m.Table.State(x.Key); s != nil {
			keys[x.Key] = &engine.Pending{Found: true, UID: s.UID, RV: s.RV, Obj: s.Obj}
		}
	}
	info, err := m.Info(ctx)
	return keys, info, err
}

func (m back) Put(last []*engine.Write, info entry.Info, _ *engine.EndedList, also func()) {
	also()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, x := range last {
		if !x.Del {
			info.NextSeq++
		}
	}
	m.Table.Apply(last)
	m.info = info
}

func (m back) Look(ctx context.Context, fn func(h engine.Held) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	return fn(held{m.Collection})
}

func (m back) Losses() int { return 0 }

func (m back) ListEnded() {}

// held implements engine.Held for a Collection whose lock is held.
type held struct{ m *Collection }

func (h held) Info() (entry.Info, error) { return h.m.info, nil }

func (h held) Has(key string) bool { return h.m.Table.State(key) != nil }

func (h held) Get(key string) (engine.HeldObject, error) {
	if s := h.m.Table.State(key); s != nil {
		return object{s}, nil
	}
	return nil, nil
}

func (h held) After(key string, fn func(key string, size int) bool) error {
	h.m.Table.Each(key, func(key string, _ *engine.ResidentObject) bool { return fn(key, len(key)) })
	return nil
}

type object struct{ *engine.ResidentObject }

func (o object) Version() (uid, rv string) { return o.UID, o.RV }

func (o object) Object() (runtime.Object, error) { return o.Obj, nil }

// SameBody compares the decoded objects.
func (o object) SameBody(x *engine.Write) (bool, error) {
	return engine.SemanticallyEqual(o.Obj, x.Obj), nil
}

func (o object) SameTerms(_ *engine.IndexSet, x *engine.Write) (bool, error) {
	return maps.EqualFunc(o.Terms, x.Terms, slices.Equal), nil
}

// InForm implements engine.HeldObject. It returns true, since there are no records that could have another form.
func (o object) InForm(*engine.Write) bool { return true }
