package fakeapi

import (
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/uuid"
)

// storage holds the objects and their history, as etcd and the watch cache do.
type storage struct {
	kinds map[schema.GroupVersionResource]*kind
	// history is how many events of each resource are kept.
	history int

	mu sync.Mutex // guards what follows
	// rv is the resourceVersion of the last write.
	rv uint64
	// compacted is the RV that history was given up to: watches must start there or later.
	compacted uint64
	tables    map[schema.GroupVersionResource]*table
	// bookmarks counts the calls of Bookmark.
	bookmarks uint64
}

func newStorage(kinds []*kind, startRV uint64, history int) *storage {
	s := &storage{
		kinds:   map[schema.GroupVersionResource]*kind{},
		history: history,
		rv:      startRV - 1, compacted: startRV - 1,
		tables: map[schema.GroupVersionResource]*table{},
	}
	for _, k := range kinds {
		s.kinds[k.GroupVersionResource] = k
		s.tables[k.GroupVersionResource] = newTable(k)
	}
	s.createNamespaces()
	return s
}

// createNamespaces writes the namespaces that every cluster has. Their UIDs are fresh, so the UID of
// kube-system tells one server from another.
func (s *storage) createNamespaces() {
	k := s.kinds[namespacesGVR]
	for _, name := range []string{"default", "kube-system"} {
		ns := newNamespace(name)
		ns.UID = uuid.NewUUID()
		// Encoding a namespace that was made here cannot fail.
		_, _ = s.create(k, ns, "")
	}
}

// RV returns the current resourceVersion.
func (s *storage) RV() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return formatRV(s.rv)
}

// Compact drops the watch history: a watch from any older RV gets 410, and so do continue tokens. Open
// watches are not disturbed.
func (s *storage) Compact() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.compacted = s.rv
	for _, t := range s.tables {
		t.compact()
	}
}

// Bookmark sends a bookmark with the current RV on every open watch that allows them.
func (s *storage) Bookmark() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bookmarks++
	for _, t := range s.tables {
		t.wake()
	}
}

// BreakWatches ends the watches of the resource that are open now. New ones are not affected.
func (s *storage) BreakWatches(gvr schema.GroupVersionResource, how Break) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tables[gvr]
	if t == nil {
		return
	}
	for w := range t.watches {
		w.broken = how
	}
	t.wake()
}

// get returns an object, or nil.
func (s *storage) get(k *kind, namespace, name string) *object {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tables[k.GroupVersionResource].objects[k.key(namespace, name)]
}
