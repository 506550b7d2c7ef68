package source

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store"
	"github.com/larder-dev/larder/store/query"
)

// ErrNoCollection says that the store has no collection with the requested id.
var ErrNoCollection = errors.New("no such collection in the store")

// Source is the data that commands read: from a store's file, from the larder sync that has locked the file, or from a
// snapshot.
type Source interface {
	// Status describes the file, its collections, and the larder sync that has locked the file, if any.
	Status(ctx context.Context) (Status, error)
	// Entries calls fn with each entry that q selects, in key order, and returns the first error. fn may keep the entries.
	// A named object that does not exist is no error. After damage Entries continues with the readable entries and then
	// returns an *UnreadableError. It decodes an entry only if a selector cannot be evaluated on the entry's bytes.
	Entries(ctx context.Context, q Query, fn func(entry.Entry) error) error
	// Check verifies the whole file, and reports damage.
	Check(ctx context.Context) (store.Report, error)
	Close() error
}

// Query selects objects of one collection.
type Query struct {
	// Collection is the required id of the collection.
	Collection string
	// Namespace selects objects in one namespace. Empty selects objects of all namespaces and cluster-scoped objects.
	Namespace string
	// Name selects the object with that name. Empty selects all objects.
	Name     string
	Selector string
	// Fields is a field selector with the fields that query.Query supports.
	Fields string
	// KeysOnly requests entries that have only a key. Without a selector the objects' records are not read, so the result
	// includes the names of damaged and of sealed objects.
	KeysOnly bool
	// OmitManagedFields requests objects without metadata.managedFields, from Sources that can omit them quickly; see
	// codec.OmitManagedFields.
	OmitManagedFields bool
}

func (q Query) selective() bool { return q.Selector != "" || q.Fields != "" }

// prefix returns the key of the object that q names. If q has no name, prefix returns the namespace, with which the
// keys of its objects begin.
func (q Query) prefix() string {
	if q.Namespace == "" {
		return q.Name
	}
	return q.Namespace + "/" + q.Name
}

func (q Query) reaches(key string) bool {
	return key == q.prefix() || q.Name == "" && strings.HasPrefix(key, q.prefix())
}

// parse converts q to a query.Query with parsed selectors. That query has no name.
func (q Query) parse() (query.Query, error) {
	parsed := query.Query{Namespace: q.Namespace}
	var err error
	if q.Selector != "" {
		if parsed.Labels, err = labels.Parse(q.Selector); err != nil {
			return parsed, fmt.Errorf("label selector %q: %w", q.Selector, err)
		}
	}
	if q.Fields != "" {
		if parsed.Fields, err = fields.ParseSelector(q.Fields); err != nil {
			return parsed, fmt.Errorf("field selector %q: %w", q.Fields, err)
		}
	}
	return parsed, nil
}

// reading is one execution of a Query: it passes the selected entries of a collection to the function fn.
type reading struct {
	query   Query
	codec   codec.Codec
	selects func(entry.Entry) (bool, error)
	fn      func(entry.Entry) error
	// unreadable lists the damaged entries. It includes entries that q might not select, since their contents are unknown.
	unreadable UnreadableError
}

func newReading(c Collection, q Query, fn func(entry.Entry) error) (*reading, error) {
	parsed, err := q.parse()
	if err != nil {
		return nil, err
	}
	d := NewDecoder(c)
	return &reading{query: q, codec: d.codec, selects: parsed.ForEntries(d.codec), fn: fn}, nil
}

func (r *reading) take(e entry.Entry) error {
	if !r.query.reaches(e.Key) {
		return nil
	}
	selected, err := r.selects(e)
	if err := r.unreadable.add(err); err != nil || !selected {
		return err
	}
	if r.query.KeysOnly {
		e = entry.Entry{Key: e.Key}
	}
	if r.query.OmitManagedFields {
		e.Payload = codec.OmitManagedFields(r.codec, e.Encoding, e.Payload)
	}
	return r.fn(e)
}
