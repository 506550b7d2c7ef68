package source

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/larder-dev/larder/store"
)

// ErrNoCollection says that the store has no collection of that id.
var ErrNoCollection = errors.New("no such collection in the store")

// Source is a store as the reading commands see it.
type Source interface {
	// Status describes the file, its collections, and the sync that holds it if one does.
	Status(ctx context.Context) (Status, error)
	// Objects calls fn for each object that q selects, in key order, and
	// returns the first error. Objects are shared and must not be modified.
	// A missing name is no error: fn is not called. An *UnreadableError comes after everything that can be read.
	Objects(ctx context.Context, q Query, fn func(*unstructured.Unstructured) error) error
	// Check verifies the whole file.
	Check(ctx context.Context) (store.Report, error)
	// Compact writes the file anew without its free pages. A file that is open for reading only cannot do it.
	Compact(ctx context.Context) (store.Compacted, error)
	// Close releases the file or the connection.
	Close() error
}

// Query selects objects of one collection.
type Query struct {
	// Collection is the id of the collection. Required.
	Collection string
	// Namespace selects one; empty selects all, and what has none.
	Namespace string
	// Name selects one object. Empty selects all.
	Name string
	// Selector is a label selector. Empty selects everything.
	Selector string
	// Fields is a field selector, of what fields store.Query knows. Empty selects everything.
	Fields string
	// HeadOnly asks for no more than apiVersion, kind, name, namespace and creationTimestamp.
	HeadOnly bool
	// NameOnly asks for no more than the names: kind and apiVersion may be missing too. What is sealed needs no key for
	// that, if there is no selector.
	NameOnly bool
}

// parse returns q, but for the name, as the store understands it.
func (q Query) parse() (store.Query, error) {
	parsed := store.Query{Namespace: q.Namespace}
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

// head returns a new object with what Query.HeadOnly promises.
func head(u *unstructured.Unstructured) *unstructured.Unstructured {
	meta := map[string]any{"name": u.GetName()}
	if ns := u.GetNamespace(); ns != "" {
		meta["namespace"] = ns
	}
	if created, ok, _ := unstructured.NestedString(u.Object, "metadata", "creationTimestamp"); ok {
		meta["creationTimestamp"] = created
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": u.GetAPIVersion(), "kind": u.GetKind(), "metadata": meta,
	}}
}
