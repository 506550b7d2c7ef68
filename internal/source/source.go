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

// ErrNoCollection says that the store has no collection with that id.
var ErrNoCollection = errors.New("no such collection in the store")

// Source is the data of a store for commands: its file, the sync that holds the file, or a snapshot.
type Source interface {
	// Status describes the file, its collections, and the sync that holds it, if any.
	Status(ctx context.Context) (Status, error)
	// Entries calls fn with each entry that q selects, in key order, and returns the first error. fn may keep the
	// entries. If the named object does not exist, fn is not called, and there is no error. After damage Entries
	// continues with the readable entries and then returns an *UnreadableError. It decodes an entry only if a selector
	// cannot be evaluated on its bytes.
	Entries(ctx context.Context, q Query, fn func(entry.Entry) error) error
	// Check verifies the whole file.
	Check(ctx context.Context) (store.Report, error)
	// Close releases the file or the connection.
	Close() error
}

// Query selects objects of one collection.
type Query struct {
	// Collection is the id of the collection. Required.
	Collection string
	// Namespace selects one namespace. Empty selects all, and cluster-scoped objects.
	Namespace string
	// Name selects one object. Empty selects all.
	Name string
	// Selector is a label selector. Empty selects everything.
	Selector string
	// Fields is a field selector with the fields that query.Query supports. Empty selects everything.
	Fields string
	// KeysOnly requests entries with only a key. Without a selector no record is read, so that the names of damaged and
	// of sealed records are included.
	KeysOnly bool
	// OmitManagedFields requests payloads without metadata.managedFields, where that saves time; see
	// codec.OmitManagedFields.
	OmitManagedFields bool
}

// selective reports whether q has a selector.
func (q Query) selective() bool { return q.Selector != "" || q.Fields != "" }

// prefix returns the key that q names, or the prefix of its namespace's keys.
func (q Query) prefix() string {
	if q.Namespace == "" {
		return q.Name
	}
	return q.Namespace + "/" + q.Name
}

// reaches reports whether a key is in the namespace and has the name that q selects.
func (q Query) reaches(key string) bool {
	return key == q.prefix() || q.Name == "" && strings.HasPrefix(key, q.prefix())
}

// parse returns q without its name as a query of the store.
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

// reading passes selected entries of a collection to fn.
type reading struct {
	query   Query
	codec   codec.Codec
	selects func(entry.Entry) (bool, error)
	fn      func(entry.Entry) error
	// unreadable has the damaged entries, even if the query might not select them: their contents are unknown.
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

// take passes e to fn if it is selected.
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
