package source

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/snapshot"
	"github.com/larder-dev/larder/store"
)

// Objects implements Source. A name or a namespace reads the blocks that it is in. Blocks that are damaged are passed
// over.
func (s *Snapshot) Objects(ctx context.Context, q Query, fn func(*unstructured.Unstructured) error) error {
	c, ok := s.collection(q.Collection)
	if !ok {
		return fmt.Errorf("collection %s: %w", q.Collection, ErrNoCollection)
	}
	r, err := newSnapshotRead(s, c, q, fn)
	if err != nil {
		return err
	}
	var missing *snapshot.MissingError
	if err := r.scan(ctx); errors.As(err, &missing) {
		r.unreadable.Merge(missingIn(missing))
	} else if err != nil {
		return undecodable(infoOf(c), err)
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

func (s *Snapshot) collection(id string) (snapshot.Collection, bool) {
	for _, c := range s.file.Manifest().Collections {
		if c.Identity.ID() == id {
			return c, true
		}
	}
	return snapshot.Collection{}, false
}

// snapshotRead is one read of one collection.
type snapshotRead struct {
	snapshot *Snapshot
	c        snapshot.Collection
	query    Query
	selected store.Query
	decoder  *snapshot.Decoder
	fn       func(*unstructured.Unstructured) error

	unreadable UnreadableError
}

func newSnapshotRead(
	s *Snapshot, c snapshot.Collection, q Query, fn func(*unstructured.Unstructured) error,
) (*snapshotRead, error) {
	selected, err := q.parse()
	if err != nil {
		return nil, err
	}
	return &snapshotRead{snapshot: s, c: c, query: q, selected: selected, decoder: decoderOf(c), fn: fn}, nil
}

// decoderOf is the decoder of a collection, also where the snapshot does not tell the kind of one of Kubernetes' own
// resources.
func decoderOf(c snapshot.Collection) *snapshot.Decoder {
	c.Resource, _ = describe(infoOf(c))
	return snapshot.NewDecoder(c)
}

// scan reads what the query asks for.
func (r *snapshotRead) scan(ctx context.Context) error {
	file, id := r.snapshot.file, r.c.Identity
	switch {
	case r.query.Name != "":
		rec, ok, err := file.Get(ctx, id, namespacePrefix(r.query.Namespace)+r.query.Name)
		if err != nil || !ok {
			return err
		}
		return r.record(rec)
	case r.query.Namespace != "":
		return file.Namespace(ctx, id, r.query.Namespace, r.record)
	}
	return file.Records(ctx, id, "", r.record)
}

func (r *snapshotRead) record(rec entry.Entry) error {
	u, err := r.decoder.Decode(rec)
	if errors.Is(err, snapshot.ErrDamaged) { // an undamaged block has it: it was so when the snapshot was taken
		r.unreadable.Merge(&UnreadableError{Count: 1, Problems: []string{fmt.Sprintf("%s: %v", r.c.Identity, err)}})
		return nil
	}
	if err != nil {
		return err
	}
	ok, err := r.selected.Matches(u)
	if err != nil || !ok {
		return err
	}
	if r.query.HeadOnly {
		u = head(u)
	}
	return r.fn(u)
}
