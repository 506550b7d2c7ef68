package query

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/selection"

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

// Matcher is a Query prepared for one read. It is not safe for concurrent use.
type Matcher struct {
	Prefix string // required prefix of keys; the reader passes only objects with such keys
	None   bool   // true if the query selects nothing
	labels labels.Requirements
	fields []fieldMatch
	pairs  labelPairs // labels of the current object
	paths  map[reflect.Type][]*codec.FieldPath
	peeked []codec.Field // readers of fields in encoded payloads; an element is nil if its field needs decoding
}

// fieldMatch is the value that one field must have, or must not have.
type fieldMatch struct {
	name  string
	path  []string
	value string
	not   bool
}

// Matcher prepares q for one read. It converts the selectors to requirements, so that no method of a custom selector
// runs later. namespaced says that keys come from cache.MetaNamespaceKeyFunc: then q.Namespace becomes the Prefix.
// Otherwise it becomes a requirement on the field metadata.namespace.
func (q Query) Matcher(namespaced bool) *Matcher {
	m := &Matcher{}
	if q.Labels != nil {
		requirements, selectable := q.Labels.Requirements()
		m.labels, m.None = requirements, !selectable
	}
	if q.Fields != nil {
		requirements := q.Fields.Requirements()
		m.None = m.None || len(requirements) == 0 && !q.Fields.Empty()
		for _, r := range requirements {
			m.require(r.Field, r.Value, r.Operator == selection.NotEquals)
		}
	}
	switch {
	case q.Namespace == "":
	case namespaced:
		m.Prefix = q.Namespace + "/"
	default:
		m.require("metadata.namespace", q.Namespace, false)
	}
	return m
}

func (m *Matcher) require(field, value string, not bool) {
	m.fields = append(m.fields, fieldMatch{name: field, path: strings.Split(field, "."), value: value, not: not})
}

// all reports whether every object matches.
func (m *Matcher) all() bool { return !m.None && len(m.labels) == 0 && len(m.fields) == 0 }

// Payload reports whether the object in an encoded payload matches. If known is false the payload must be decoded and
// passed to Object.
func (m *Matcher) Payload(c codec.Codec, encoding string, payload []byte) (match, known bool) {
	if m.None || m.all() {
		return !m.None, true
	}
	p, ok := c.(codec.Peeker)
	if !ok {
		return false, false
	}
	if len(m.labels) > 0 {
		if m.pairs.pairs, known = p.Labels(m.pairs.pairs, encoding, payload); !known {
			return false, false
		}
		if !m.matchLabels(&m.pairs) {
			return false, true
		}
	}
	for i, field := range m.fieldsOf(p) {
		if field == nil {
			return false, false
		}
		is, known := field.Is(encoding, payload, m.fields[i].value)
		if !known {
			return false, false
		}
		if is == m.fields[i].not {
			return false, true
		}
	}
	return true, true
}

// fieldsOf returns the codec's readers of the required fields. It asks the codec once and keeps the result.
func (m *Matcher) fieldsOf(p codec.Peeker) []codec.Field {
	if m.peeked == nil {
		m.peeked = make([]codec.Field, len(m.fields))
		for i, f := range m.fields {
			m.peeked[i] = p.Field(f.path)
		}
	}
	return m.peeked
}

// matchLabels reports whether ls match.
func (m *Matcher) matchLabels(ls labels.Labels) bool {
	for i := range m.labels {
		if !m.labels[i].Matches(ls) {
			return false
		}
	}
	return true
}

// Object reports whether obj matches. It fails with ErrNoField if objects of its type have no such field.
func (m *Matcher) Object(obj runtime.Object) (bool, error) {
	if m.None || m.all() {
		return !m.None, nil
	}
	if len(m.labels) > 0 {
		var ls labels.Set
		if o, err := meta.Accessor(obj); err == nil {
			ls = o.GetLabels()
		}
		if !m.matchLabels(ls) {
			return false, nil
		}
	}
	if len(m.fields) == 0 {
		return true, nil
	}
	if u, ok := obj.(*unstructured.Unstructured); ok {
		return m.unstructuredFields(u), nil
	}
	return m.typedFields(obj)
}

func (m *Matcher) unstructuredFields(u *unstructured.Unstructured) bool {
	for _, f := range m.fields {
		v, _, _ := unstructured.NestedFieldNoCopy(u.Object, f.path...) //nolint:errcheck // an error counts as an absent field
		if f.not == (codec.PlainText(v) == f.value) {
			return false
		}
	}
	return true
}

func (m *Matcher) typedFields(obj runtime.Object) (bool, error) {
	v := reflect.ValueOf(obj)
	if v.Kind() != reflect.Pointer || v.IsNil() {
		return false, fmt.Errorf("%T: %w", obj, ErrNoField)
	}
	paths, err := m.pathsOf(v.Elem().Type())
	if err != nil {
		return false, err
	}
	for i, f := range m.fields {
		if f.not == (paths[i].Text(v.Elem()) == f.value) {
			return false, nil
		}
	}
	return true, nil
}

// pathsOf returns the paths of the fields in the Go type t. It fails with ErrNoField if t lacks one.
func (m *Matcher) pathsOf(t reflect.Type) ([]*codec.FieldPath, error) {
	if paths := m.paths[t]; paths != nil {
		return paths, nil
	}
	paths := make([]*codec.FieldPath, len(m.fields))
	for i, f := range m.fields {
		if paths[i] = codec.NewFieldPath(t, f.path); paths[i] == nil {
			return nil, fmt.Errorf("field %q of a *%s: %w", f.name, t, ErrNoField)
		}
	}
	if m.paths == nil {
		m.paths = map[reflect.Type][]*codec.FieldPath{}
	}
	m.paths[t] = paths
	return paths, nil
}

// labelPairs are the labels of a payload, in its order. They implement labels.Labels without a map. If a name occurs
// twice the last value counts.
type labelPairs struct{ pairs []codec.Label }

// Has implements labels.Labels.
func (l *labelPairs) Has(label string) bool {
	_, ok := l.find(label)
	return ok
}

// Get implements labels.Labels.
func (l *labelPairs) Get(label string) string {
	value, _ := l.find(label)
	return string(value)
}

// Lookup implements labels.Labels.
func (l *labelPairs) Lookup(label string) (string, bool) {
	value, ok := l.find(label)
	return string(value), ok
}

func (l *labelPairs) find(label string) ([]byte, bool) {
	for i := len(l.pairs) - 1; i >= 0; i-- {
		if string(l.pairs[i].Name) == label {
			return l.pairs[i].Value, true
		}
	}
	return nil, false
}
