package fakeapi

import (
	"maps"
	"slices"
	"sort"
	"strings"
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

// table has the objects and the history of one resource. storage.mu guards it.
type table struct {
	kind    *kind
	objects map[string]*object

	// sorted is the list of objects in key order, without the changes to the keys in dirty. It is replaced, never
	// modified, because list pages and watches still read the old list.
	sorted []*object
	dirty  map[string]struct{}

	// log is the history, oldest event first. Events are numbered in the order of writes; the field first is the number of
	// log[0].
	log   []*event
	first uint64
	// trimmed is the resourceVersion of the newest event that was removed from log.
	trimmed uint64

	// changed is closed and replaced when a watch may have something to send. Watches wait for changed.
	changed chan struct{}
	watches map[*watcher]struct{}
}

// event is a write in the history of a resource. It is immutable.
type event struct {
	rv  uint64
	key string
	// prev is the object before the write, nil if the write created it. cur is the object after the write, nil if the
	// write deleted it.
	prev, cur *object
	// gone returns the object before the write, with the event's resourceVersion, for watches that report DELETED.
	gone func() (*object, error)
}

func newEvent(rv uint64, prev, cur *object) *event {
	e := &event{rv: rv, prev: prev, cur: cur}
	if prev == nil {
		e.key = cur.key
		return e
	}
	e.key = prev.key
	e.gone = sync.OnceValues(func() (*object, error) { return prev.at(rv) })
	return e
}

func newTable(k *kind) *table {
	return &table{
		kind: k, objects: map[string]*object{}, dirty: map[string]struct{}{},
		changed: make(chan struct{}), watches: map[*watcher]struct{}{},
	}
}

// record adds a write to the history of the table, and trims that history to about keep events.
func (t *table) record(e *event, keep int) {
	if e.cur != nil {
		t.objects[e.key] = e.cur
	} else {
		delete(t.objects, e.key)
	}
	t.dirty[e.key] = struct{}{}
	t.log = append(t.log, e)
	if len(t.log) > keep+keep/4 {
		t.trim(len(t.log) - keep)
	}
	t.wake()
}

func (t *table) trim(n int) {
	if n == 0 {
		return
	}
	t.trimmed = t.log[n-1].rv
	t.first += uint64(n)
	t.log = slices.Clone(t.log[n:])
}

// compact removes the events that every open watch has sent from the history.
func (t *table) compact() {
	needed := t.end()
	for w := range t.watches {
		needed = min(needed, w.next)
	}
	if needed > t.first {
		t.trim(int(needed - t.first))
	}
}

func (t *table) end() uint64 { return t.first + uint64(len(t.log)) }

func (t *table) after(rv uint64) uint64 {
	i := sort.Search(len(t.log), func(i int) bool { return t.log[i].rv > rv })
	return t.first + uint64(i)
}

func (t *table) wake() {
	close(t.changed)
	t.changed = make(chan struct{})
}

// ordered returns the current objects in key order. The slice is shared and never modified.
func (t *table) ordered() []*object {
	if len(t.dirty) > 0 {
		t.sorted = merged(t.sorted, t.dirty, func(key string) *object { return t.objects[key] })
		t.dirty = map[string]struct{}{}
	}
	return t.sorted
}

// at returns the objects at an older resourceVersion, which must be in the history.
func (t *table) at(rv uint64) []*object {
	now := t.ordered()
	if len(t.log) == 0 || t.log[len(t.log)-1].rv <= rv {
		return now
	}
	undone := map[string]*object{}
	for i := len(t.log) - 1; i >= 0 && t.log[i].rv > rv; i-- {
		undone[t.log[i].key] = t.log[i].prev
	}
	return merged(now, undone, func(key string) *object { return undone[key] })
}

func search(state []*object, key string) int {
	n, _ := slices.BinarySearchFunc(state, key, func(o *object, key string) int { return strings.Compare(o.key, key) })
	return n
}

// merged returns base with the objects of the changed keys replaced by the results of get. A nil result removes the
// object.
func merged[V any](base []*object, changed map[string]V, get func(key string) *object) []*object {
	keys := make([]string, 0, len(changed))
	for key := range changed {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	out := make([]*object, 0, len(base)+len(keys))
	for _, key := range keys {
		n := search(base, key)
		out = append(out, base[:n]...)
		if n < len(base) && base[n].key == key {
			n++
		}
		base = base[n:]
		if o := get(key); o != nil {
			out = append(out, o)
		}
	}
	return append(out, base...)
}

// Snapshot is the whole state of a server at one resourceVersion. Immutable.
type Snapshot struct {
	rv, compacted uint64
	tables        map[schema.GroupVersionResource]tableState
}

type tableState struct {
	objects map[string]*object
	log     []*event
	trimmed uint64
}

// Snapshot returns the objects, the history and the resourceVersion of the server, like an etcd backup for Restore.
// Restoring the snapshot of a new server simulates a younger cluster at the same address.
func (s *storage) Snapshot() *Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	snap := &Snapshot{rv: s.rv, compacted: s.compacted, tables: map[schema.GroupVersionResource]tableState{}}
	for gvr, t := range s.tables {
		snap.tables[gvr] = tableState{objects: maps.Clone(t.objects), log: slices.Clone(t.log), trimmed: t.trimmed}
	}
	return snap
}

// Restore sets the server back to a snapshot, which must be of a server with the same resources. Every connection is
// closed.
func (s *Server) Restore(snap *Snapshot) error {
	running := s.http != nil
	s.Stop()
	s.storage.restore(snap)
	if running {
		return s.Start()
	}
	return nil
}

func (s *storage) restore(snap *Snapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rv, s.compacted = snap.rv, snap.compacted
	for gvr, t := range s.tables {
		state := snap.tables[gvr]
		fresh := newTable(t.kind)
		fresh.log, fresh.trimmed = slices.Clone(state.log), state.trimmed
		for key, o := range state.objects {
			fresh.objects[key] = o
			fresh.dirty[key] = struct{}{}
		}
		s.tables[gvr] = fresh
	}
}
