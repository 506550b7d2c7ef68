package source

import (
	"context"
	"errors"
	"os"
	"time"

	"filippo.io/age"

	"github.com/larder-dev/larder/snapshot"
	"github.com/larder-dev/larder/store"
)

// ErrSnapshot says that a snapshot can not do what a store can.
var ErrSnapshot = errors.New("it is a snapshot, which does not change")

// Snapshot is a snapshot's file as a Source. It does not change, and so is no Watcher.
type Snapshot struct {
	path       string
	identities []age.Identity
	file       *snapshot.File
	bytes      int64
	// losses are what of a damaged file can not be read; salvaged says that they are known, and whole that no object is in them.
	losses   []snapshot.Loss
	salvaged bool
	whole    bool
}

// SnapshotInfo is what a snapshot says about itself.
type SnapshotInfo struct {
	// TakenAt is when it was taken; zero is unknown.
	TakenAt time.Time `json:"takenAt,omitzero"`
	// ClusterID, ServerVersion and Larder are of the cluster and of the program that it was taken by; empty is unknown.
	ClusterID     string `json:"clusterID,omitempty"`
	ServerVersion string `json:"serverVersion,omitempty"`
	Larder        string `json:"larder,omitempty"`
	// Format is the version of the file's format. Encrypted is set if the file is.
	Format    uint32 `json:"format"`
	Encrypted bool   `json:"encrypted,omitempty"`
	// LeftOut says which collections were there and are not in the snapshot, and why, one an entry.
	LeftOut []string `json:"leftOut,omitempty"`
	// Damaged says, a line each, what of the file can not be read; empty if nothing is known to be. Check reads all.
	Damaged []string `json:"damaged,omitempty"`
}

// OpenSnapshot opens the snapshot at path. Of one that is damaged it opens what can be read: Objects says at its end what can not.
func OpenSnapshot(ctx context.Context, path string, identities []age.Identity) (*Snapshot, error) {
	s := &Snapshot{path: path, identities: identities}
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	s.bytes = info.Size()
	if s.file, err = snapshot.Open(path, snapshot.OpenOptions{Identities: identities}); err == nil {
		return s, nil
	}
	if errors.Is(err, snapshot.ErrDamaged) && s.Salvage(ctx) == nil {
		return s, nil
	}
	return nil, causeOr(ctx, err) // what was not read to its end is not known to be unreadable
}

// Salvage has s read what is whole of a file that may be damaged: all of it is read for that. Nobody else may use s meanwhile.
func (s *Snapshot) Salvage(ctx context.Context) error {
	if s.salvaged {
		return nil
	}
	file, report, err := snapshot.OpenSalvage(ctx, s.path, snapshot.OpenOptions{Identities: s.identities})
	if err != nil {
		return err
	}
	if s.file != nil {
		_ = s.file.Close() // it was only read
	}
	s.file, s.losses, s.salvaged, s.whole = file, report.Losses, true, report.Whole
	return nil
}

// Lost is what is known to be lost: nil, or an *UnreadableError.
func (s *Snapshot) Lost() error {
	lost := &UnreadableError{}
	for _, l := range s.losses {
		lost.Merge(&UnreadableError{Count: 1, Parts: true, Empty: s.whole, Problems: []string{l.Error()}})
	}
	return lost.errOrNil()
}

// File returns the snapshot itself, for what a Source does not give. It belongs to s.
func (s *Snapshot) File() *snapshot.File { return s.file }

// Status implements Source.
func (s *Snapshot) Status(context.Context) (Status, error) {
	m := s.file.Manifest()
	st := Status{Store: s.path, Bytes: s.bytes, Collections: []Collection{}, Snapshot: &SnapshotInfo{
		TakenAt: m.TakenAt, ClusterID: m.ClusterID, ServerVersion: m.ServerVersion, Larder: m.Larder,
		Format: m.Format, Encrypted: m.Encrypted, LeftOut: m.LeftOut,
	}}
	for _, loss := range s.losses {
		st.Snapshot.Damaged = append(st.Snapshot.Damaged, loss.Error())
	}
	for _, c := range m.Collections {
		one := NewCollection(infoOf(c))
		one.TakenAt, one.Filtered, one.Redacted = m.TakenAt, c.Filtered, c.Redacted
		if m.Filter != nil && one.Namespace == "" && one.Namespaced {
			one.Namespaces = m.Filter.Namespaces
		}
		if one.TakenAt.IsZero() {
			one.TakenAt = c.LastContact
		}
		st.Collections = append(st.Collections, one)
	}
	Sort(st.Collections)
	return st, nil
}

// infoOf is what a store would say about a snapshot's collection.
func infoOf(c snapshot.Collection) store.Info {
	return store.Info{
		Identity: c.Identity, Attributes: c.Attributes, Resource: c.Resource, ResourceVersion: c.ResourceVersion,
		Complete: c.Complete, MustRelist: c.MustRelist, LastContact: c.LastContact, Objects: c.Objects,
	}
}

// Check implements Source: it verifies the file from its beginning to its end.
func (s *Snapshot) Check(ctx context.Context) (store.Report, error) {
	f, err := os.Open(s.path)
	if err != nil {
		return store.Report{}, err
	}
	defer func() { _ = f.Close() }() // it was only read
	r, err := snapshot.Verify(ctx, f, snapshot.ReaderOptions{Identities: s.identities})
	return store.Report{Collections: r.Collections, Objects: r.Objects, Problems: r.Problems}, err
}

// Compact implements Source: it fails with ErrSnapshot.
func (s *Snapshot) Compact(context.Context) (store.Compacted, error) {
	return store.Compacted{}, ErrSnapshot
}

// Close implements Source.
func (s *Snapshot) Close() error { return s.file.Close() }
