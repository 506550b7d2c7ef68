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

// ErrSnapshot says that a snapshot cannot do what a store can.
var ErrSnapshot = errors.New("it is a snapshot, which does not change")

// Snapshot is a snapshot's file as a Source. It does not change, and so is no Watcher.
type Snapshot struct {
	path       string
	identities []age.Identity
	file       *snapshot.File
	bytes      int64
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
}

// OpenSnapshot opens the snapshot at path. It fails with a DamageError if that was cut short, or if its index is
// damaged; of blocks that are damaged Objects tells.
func OpenSnapshot(ctx context.Context, path string, identities []age.Identity) (*Snapshot, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	file, err := snapshot.Open(path, snapshot.OpenOptions{Identities: identities})
	if err != nil {
		return nil, causeOr(ctx, err) // what was not read to its end is not known to be unreadable
	}
	return &Snapshot{path: path, identities: identities, file: file, bytes: info.Size()}, nil
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
