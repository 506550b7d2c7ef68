package engine

import (
	"context"
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/larder-dev/larder/entry"
)

// memoryInfo is the Info of a collection in memory only.
type memoryInfo struct {
	mu   sync.RWMutex // mu is held while info and the resident table change.
	info entry.Info   // mu guards info; it changes only with Collection.front held.
}

// OpenInMemory opens an empty collection that has no file. set has the index functions.
func (c *Collection) OpenInMemory(set *IndexSet) {
	c.memory = &memoryInfo{info: entry.Info{Identity: c.ID, Resource: c.Resource, NextSeq: 1}}
	c.Set.Store(set)
	all := NewResidents()
	all.Open()
	all.End(nil)
	c.resident.Store(all)
}

func (m *memoryInfo) put(all *Residents, last []*Write, info entry.Info) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, x := range last {
		if !x.Del {
			info.NextSeq++
		}
	}
	all.Apply(last)
	m.info = info
}

func (m *memoryInfo) get() entry.Info {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.info.Clone()
}

func (c *Collection) lookInMemory(ctx context.Context, fn func(h held) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c.memory.mu.RLock()
	defer c.memory.mu.RUnlock()
	return fn(heldMemory{c})
}

// heldMemory implements held for a collection in memory only, whose lock is held.
type heldMemory struct{ c *Collection }

func (h heldMemory) Info() (entry.Info, error) { return h.c.memory.info, nil }

func (h heldMemory) Has(key string) bool { return h.c.resident.Load().State(key) != nil }

func (h heldMemory) Get(key string) (heldObject, error) {
	if s := h.c.resident.Load().State(key); s != nil {
		return memoryObject{s}, nil
	}
	return nil, nil
}

func (h heldMemory) After(key string, fn func(key string, size int) bool) error {
	h.c.resident.Load().Each(key, func(key string, _ *ResidentObject) bool { return fn(key, len(key)) })
	return nil
}

type memoryObject struct{ *ResidentObject }

func (o memoryObject) Version() (uid, rv string) { return o.UID, o.RV }

func (o memoryObject) Object() (runtime.Object, error) { return o.Obj, nil }

// SameBody compares the decoded objects.
func (o memoryObject) SameBody(x *Write) (bool, error) { return SemanticallyEqual(o.Obj, x.Obj), nil }

func (o memoryObject) SameTerms(_ *IndexSet, x *Write) (bool, error) {
	return maps.EqualFunc(o.Terms, x.Terms, slices.Equal), nil
}

func (o memoryObject) InForm(*Write) bool { return true } // There are no records that could have another form.
