package query

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/base"
)

// ErrNoField is returned if a Query names a field that objects of the type do not have, or that is not a string, a
// boolean or an integer.
var ErrNoField = errors.New("objects cannot be selected by this field")

// Query selects objects of a collection. The zero Query selects all of them.
//
// Where possible, labels and fields are read from the stored bytes, so that objects that are not selected are not
// decoded. That works for unstructured objects and for objects stored in protobuf, except for apiVersion and kind, for
// numbers and booleans of the latter, and for fields read through a codec.View. Other objects are decoded first.
//
// A namespace is a range of keys; other keys are not read. With a custom store.CollectionOptions.KeyFunc the field
// metadata.namespace is compared instead. A store.View assumes client-go's keys.
type Query struct {
	// Namespace of the objects. "" selects all namespaces, and objects without one.
	Namespace string
	// Labels selects objects by label; nil selects all. Only its Requirements are used: Matches of a custom selector is
	// not called.
	Labels labels.Selector
	// Fields selects objects by field; nil selects all. A field is named as in JSON, with dots: status.phase.
	// Unlike on a server it can be any string, boolean or integer. A field that is absent equals "". For typed
	// objects a field that the type does not have fails with ErrNoField.
	Fields fields.Selector
	// After selects only objects whose keys follow this key.
	After string
	// Limit is the maximum number of objects; 0 is no limit. To go on, set After to the key of the last object.
	Limit int
}

// Matches reports whether q selects obj, which need not be stored. It ignores After and Limit, and takes the namespace
// from the object's metadata. It fails with ErrNoField if objects of its type have no such field.
func (q Query) Matches(obj runtime.Object) (bool, error) { return q.Matcher(false).Object(obj) }

// ForEntries returns a function that reports whether q selects an entry whose payload is encoded with c. The function
// decodes a payload only if it must. It assumes client-go's keys, ignores After and Limit, and must not be called
// concurrently.
func (q Query) ForEntries(c codec.Codec) func(entry.Entry) (bool, error) {
	m := q.Matcher(true)
	return func(e entry.Entry) (bool, error) {
		if !strings.HasPrefix(e.Key, m.Prefix) {
			return false, nil
		}
		if match, known := m.Payload(c, e.Encoding, e.Payload); known {
			return match, nil
		}
		obj, err := codec.Decode(c, e.Encoding, e.Payload)
		if err != nil {
			return false, fmt.Errorf("%s: %w", base.PrintableKey(e.Key), err)
		}
		return m.Object(obj)
	}
}
