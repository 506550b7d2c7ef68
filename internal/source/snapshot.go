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

// Snapshot is a Source that reads a snapshot's file. It has no watches, since the file does not change.
type Snapshot struct {
	path     string
	file     *snapshot.File
	bytes    int64
	verified bool
	meanings Meanings
}

// SnapshotInfo is the description of a snapshot in its file.
type SnapshotInfo struct {
	// TakenAt is when the snapshot was taken; zero if unknown.
	TakenAt time.Time `json:"takenAt,omitzero"`
	// ClusterID and ServerVersion describe the cluster, and Larder is the version of the program that wrote the snapshot.
	// Unknown values are empty.
	ClusterID     string `json:"clusterID,omitempty"`
	ServerVersion string `json:"serverVersion,omitempty"`
	Larder        string `json:"larder,omitempty"`
	// Format is the version of the file format.
	Format    uint32 `json:"format"`
	Encrypted bool   `json:"encrypted,omitempty"`
	// LeftOut lists the collections that the snapshot omits, with the reasons, one per entry.
	LeftOut []string `json:"leftOut,omitempty"`
}

// OpenSnapshot opens the snapshot at path. It fails with a DamageError if the file was cut short or its index is
// damaged. Entries finds damage of single blocks. If o.SignedBy is not empty, OpenSnapshot fails with
// snapshot.ErrUnsigned or snapshot.ErrSignature unless one of these keys has signed the snapshot.
func OpenSnapshot(ctx context.Context, path string, o Options) (*Snapshot, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	file, err := snapshot.Open(path, snapshot.OpenOptions{Identities: o.Identities, SignedBy: o.SignedBy})
	if err != nil {
		return nil, causeOr(ctx, err) // an interrupted read is not damage
	}
	return &Snapshot{path: path, file: file, bytes: info.Size(), verified: len(o.SignedBy) > 0}, nil
}

// File returns the open snapshot file, for operations that a Source does not have. The Snapshot closes it.
func (s *Snapshot) File() *snapshot.File { return s.file }

// Verified reports whether one of the keys in Options.SignedBy has signed the snapshot.
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

// Check implements Source. It verifies the whole file.
func (s *Snapshot) Check(ctx context.Context) (store.Report, error) {
	r, err := s.file.Verify(ctx)
	return store.Report{Collections: r.Collections, Objects: r.Objects, Problems: r.Problems}, err
}

// Entries implements Source. For a query with a name or namespace it reads only the blocks of the file that may contain
// matching objects. It skips damaged blocks, and reports them in its error.
func (s *Snapshot) Entries(ctx context.Context, q Query, fn func(entry.Entry) error) error {
	all := s.file.Manifest().Collections
	at := slices.IndexFunc(all, func(c snapshot.Collection) bool { return c.Identity.ID() == q.Collection })
	if at < 0 {
		return fmt.Errorf("collection %s: %w", q.Collection, ErrNoCollection)
	}
	id := all[at].Identity
	r, err := newReading(NewCollection(all[at].Info()), q, func(e entry.Entry) error {
		e.Payload = bytes.Clone(e.Payload) // the block's memory is used for the next block
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
	if err := r.unreadable.add(err); err != nil {
		return err
	}
	return r.unreadable.errOrNil()
}

func missingIn(m *snapshot.MissingError) *UnreadableError {
	e := &UnreadableError{Count: m.Objects, AtLeast: !m.Exact}
	for _, d := range m.Damage {
		e.Problems = append(e.Problems, d.Error())
	}
	return e
}

// Close implements Source.
func (s *Snapshot) Close() error { return s.file.Close() }

// Records returns the data of src as a snapshot.Source, for a new snapshot or a comparison: the records of a snapshot
// or store, or the entries of a running larder sync, which include collections that are kept in memory only.
func Records(src Source) snapshot.Source {
	switch src := src.(type) {
	case *Snapshot:
		return src.file
	case *File:
		return snapshot.StoreSource(src.store)
	}
	return &answers{src}
}

// Saved converts c to a snapshot.Collection with all fields that the snapshot's filters need.
func (c Collection) Saved() snapshot.Collection {
	mustRelist := c.MustRelist
	if mustRelist == "" && (len(c.LeftOut) > 0 || c.LeftOutMore) {
		mustRelist = snapshot.RelistLeftOut
	}
	return snapshot.Collection{
		Identity: c.Identity(), Attributes: entry.Attributes{Transform: c.Transform}, Resource: c.ResourceInfo(),
		ResourceVersion: c.ResourceVersion, Complete: c.Complete, MustRelist: mustRelist, LastContact: c.LastContact,
		Objects: c.Objects, Filtered: c.Filtered, Redacted: c.Redacted, Sealed: c.Sealed,
	}
}

// answers makes a Source a snapshot.Source that reads through the Source's Status and Entries.
type answers struct{ src Source }

func (a *answers) Collections(ctx context.Context) ([]snapshot.Collection, error) {
	st, err := a.src.Status(ctx)
	if err != nil {
		return nil, err
	}
	var all []snapshot.Collection
	for _, c := range st.Collections {
		all = append(all, c.Saved())
	}
	return all, nil
}

func (a *answers) Records(ctx context.Context, id entry.Identity, fn func(entry.Entry) error) error {
	return a.src.Entries(ctx, Query{Collection: id.ID()}, fn)
}

// SaveRequest selects the contents of a snapshot.
type SaveRequest struct {
	Filter    snapshot.Filter    `json:"filter,omitzero"`
	Redaction snapshot.Redaction `json:"redaction,omitzero"`
	// Secrets includes the contents of Secrets. The stream is not encrypted; the client can encrypt the file that it
	// writes.
	Secrets bool `json:"secrets,omitempty"`
	// Larder is the version of the program that writes the snapshot, for the snapshot's header.
	Larder string `json:"-"`
	// LeftOut lists the data that the snapshot omits, with the reasons, one per entry.
	LeftOut []string `json:"-"`
}

// Options returns the request as the options of package snapshot.
func (r SaveRequest) Options() snapshot.SaveOptions {
	return snapshot.SaveOptions{
		Secrets: r.Secrets, Header: snapshot.Header{Larder: r.Larder, LeftOut: r.LeftOut},
		SelectOptions: snapshot.SelectOptions{Filter: r.Filter, Redaction: r.Redaction},
	}
}
