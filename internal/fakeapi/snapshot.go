package fakeapi

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

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
