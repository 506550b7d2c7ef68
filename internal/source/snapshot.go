package source

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/snapshot"
	"github.com/larder-dev/larder/store"
)

// Snapshot is a snapshot's file as a Source. It does not change, and so is no Watcher.
type Snapshot struct {
	path     string
	file     *snapshot.File
	bytes    int64
	verified bool
	meanings Meanings
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
// damaged; of blocks that are damaged Entries tells. It fails with snapshot.ErrUnsigned or snapshot.ErrSignature if
// none of o.SignedBy has signed it.
func OpenSnapshot(ctx context.Context, path string, o Options) (*Snapshot, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	file, err := snapshot.Open(path, snapshot.OpenOptions{Identities: o.Identities, SignedBy: o.SignedBy})
	if err != nil {
		return nil, causeOr(ctx, err) // what was not read to its end is not known to be unreadable
	}
	return &Snapshot{path: path, file: file, bytes: info.Size(), verified: len(o.SignedBy) > 0}, nil
}

// File returns the snapshot itself, for what a Source does not give. It belongs to s.
func (s *Snapshot) File() *snapshot.File { return s.file }

// Verified reports whether one of Options.SignedBy has signed the snapshot.
func (s *Snapshot) Verified() bool { return s.verified }

// Status implements Source.
func (s *Snapshot) Status(ctx context.Context) (Status, error) {
	m := s.file.Manifest()
	st := Status{Store: s.path, Bytes: s.bytes, Collections: []Collection{}, Snapshot: &SnapshotInfo{
		TakenAt: m.TakenAt, ClusterID: m.ClusterID, ServerVersion: m.ServerVersion, Larder: m.Larder,
		Format: m.Format, Encrypted: m.Encrypted, LeftOut: m.LeftOut,
	}}
	for _, c := range m.Collections {
		one := NewCollection(c.Info())
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
	SetMeanings(st.Collections, s.meanings.Discovery(ctx, s.file))
	return st, nil
}

// Check implements Source: it verifies all of the file.
func (s *Snapshot) Check(ctx context.Context) (store.Report, error) {
	r, err := s.file.Verify(ctx)
	return store.Report{Collections: r.Collections, Objects: r.Objects, Problems: r.Problems}, err
}

// Entries implements Source. A name or a namespace reads the blocks that it is in. Blocks that are damaged are passed
// over.
func (s *Snapshot) Entries(ctx context.Context, q Query, fn func(entry.Entry) error) error {
	all := s.file.Manifest().Collections
	at := slices.IndexFunc(all, func(c snapshot.Collection) bool { return c.Identity.ID() == q.Collection })
	if at < 0 {
		return fmt.Errorf("collection %s: %w", q.Collection, ErrNoCollection)
	}
	id := all[at].Identity
	r, err := newReading(NewCollection(all[at].Info()), q, func(e entry.Entry) error {
		e.Payload = bytes.Clone(e.Payload) // the block is read into again
		return fn(e)
	})
	if err != nil {
		return err
	}
	switch {
	case q.Name != "":
		var e entry.Entry
		var found bool
		if e, found, err = s.file.Get(ctx, id, q.prefix()); found {
			err = r.take(e)
		}
	case q.Namespace != "":
		err = s.file.Namespace(ctx, id, q.Namespace, r.take)
	default:
		err = s.file.Records(ctx, id, r.take)
	}
	var missing *snapshot.MissingError
	if errors.As(err, &missing) {
		err = missingIn(missing)
	}
	if err := r.unreadable.take(err); err != nil {
		return err
	}
	return r.unreadable.errOrNil()
}

// missingIn is what a snapshot's file could not read, as an UnreadableError.
func missingIn(m *snapshot.MissingError) *UnreadableError {
	e := &UnreadableError{Count: m.Objects, AtLeast: !m.Exact}
	for _, d := range m.Damage {
		e.Problems = append(e.Problems, d.Error())
	}
	return e
}

// Close implements Source.
func (s *Snapshot) Close() error { return s.file.Close() }
