package source

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/larder-dev/larder/snapshot"
	"github.com/larder-dev/larder/store"
)

// Objects implements Source. A name or a namespace reads the blocks that it is in. Of a damaged snapshot it reads what can be read.
func (s *Snapshot) Objects(ctx context.Context, q Query, fn func(*unstructured.Unstructured) error) error {
	c, ok := s.collection(q.Collection)
	if !ok {
		return fmt.Errorf("collection %s: %w", q.Collection, ErrNoCollection)
	}
	r, err := newSnapshotRead(s, c, q, fn)
	if err != nil {
		return err
	}
	err = r.scan(ctx)
	if errors.Is(err, snapshot.ErrDamaged) && !s.salvaged {
		if salvageErr := s.Salvage(ctx); salvageErr != nil {
			return causeOr(ctx, errors.Join(err, salvageErr))
		}
		err = r.scan(ctx) // from where it was
	}
	if err != nil {
		return undecodable(infoOf(c), err)
	}
	if err := s.look(ctx, c); err != nil {
		return err
	}
	r.lose(s.losses)
	return r.unreadable.errOrNil()
}

// look finds out whether the beginning of a collection is damaged, which no read needs, and what else then is. The objects have been read.
func (s *Snapshot) look(ctx context.Context, c snapshot.Collection) error {
	if s.salvaged || !errors.Is(s.file.Begin(c.Identity), snapshot.ErrDamaged) {
		return nil
	}
	return causeOr(ctx, s.Salvage(ctx))
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
	// last is the key of the last record that was read.
	last       string
	unreadable UnreadableError
}

func newSnapshotRead(s *Snapshot, c snapshot.Collection, q Query, fn func(*unstructured.Unstructured) error) (*snapshotRead, error) {
	selected, err := q.parse()
	if err != nil {
		return nil, err
	}
	return &snapshotRead{snapshot: s, c: c, query: q, selected: selected, decoder: decoderOf(c), fn: fn}, nil
}

// decoderOf is the decoder of a collection, also where the snapshot does not tell the kind of one of Kubernetes' own resources.
func decoderOf(c snapshot.Collection) *snapshot.Decoder {
	c.Resource, _ = describe(infoOf(c))
	return snapshot.NewDecoder(c)
}

// scan reads what follows the last record that was read.
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
	return file.Records(ctx, id, r.last, r.record)
}

func (r *snapshotRead) record(rec store.Record) error {
	if rec.Key <= r.last { // it was read before the damage was met
		return nil
	}
	r.last = rec.Key
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

// lose notes what was lost and may have been asked for.
func (r *snapshotRead) lose(losses []snapshot.Loss) {
	if c, ok := r.snapshot.collection(r.query.Collection); r.snapshot.whole || ok && c.Complete {
		return // all of it is there
	}
	for _, l := range losses {
		if r.concerns(l) {
			r.unreadable.Merge(&UnreadableError{Count: 1, Parts: true, Problems: []string{l.Error()}})
		}
	}
}

// concerns reports whether a loss may hold what was asked for. Where it is of one block, and that says what it holds, this is known.
func (r *snapshotRead) concerns(l snapshot.Loss) bool {
	if l.Blocks != 1 {
		return true
	}
	if l.Collection != "" && l.Collection != r.c.Identity.String() {
		return false
	}
	from := namespacePrefix(r.query.Namespace) + r.query.Name
	before := l.Last != "" && l.Last < from
	behind := l.First > from && !strings.HasPrefix(l.First, from)
	return !before && !behind && (r.query.Name == "" || l.First <= from)
}
