package fakeapi

import (
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/uuid"
)

// storage holds the objects and their history, as etcd and the watch cache do.
type storage struct {
	kinds   map[schema.GroupVersionResource]*kind
	history int

	mu sync.Mutex // mu guards all fields below
	// rv is the resourceVersion of the last write.
	rv uint64
	// compacted is the resourceVersion up to which history was dropped: watches must start there or later.
	compacted uint64
	tables    map[schema.GroupVersionResource]*table
	// bookmarks counts the calls of Bookmark, so that each watch notices a new call.
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

// createNamespaces writes the namespaces default and kube-system. Their UIDs are random, so the UID of kube-system
// identifies the server.
func (s *storage) createNamespaces() {
	k := s.kinds[namespacesGVR]
	for _, name := range []string{"default", "kube-system"} {
		ns := newNamespace(name)
		ns.UID = uuid.NewUUID()
		_, _ = s.create(k, ns, "")
	}
}

func (s *storage) RV() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return formatRV(s.rv)
}

// Compact drops the watch history: watches and continue tokens of an older resourceVersion get 410. Open watches are
// not disturbed.
func (s *storage) Compact() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.compacted = s.rv
	for _, t := range s.tables {
		t.compact()
	}
}

// Bookmark sends a bookmark with the current resourceVersion on every open watch that allows them.
func (s *storage) Bookmark() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bookmarks++
	for _, t := range s.tables {
		t.wake()
	}
}

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

func (s *storage) get(k *kind, namespace, name string) *object {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tables[k.GroupVersionResource].objects[k.key(namespace, name)]
}
