package store

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
	"github.com/larder-dev/larder/internal/printable"
)

// ErrNoField: a Query asks for a field that objects of this type do not have,
// or that is not a string, a boolean or an integer.
var ErrNoField = errors.New("objects cannot be selected by this field")

// Query selects objects of a collection. The zero Query selects all of them.
//
// Labels and fields are read from the stored bytes where that is possible, so
// that what is not selected is not decoded: of unstructured objects, and of those stored in
// protobuf, except for fields read through a codec.View and for apiVersion and kind. Typed objects without
// protobuf, and codecs that are not of this package, are decoded first.
//
// A namespace is a range of keys, and the others are not looked at; with a
// CollectionOptions.KeyFunc of the caller it is the field metadata.namespace. A View takes keys to be client-go's.
type Query struct {
	// Namespace is the one that objects must be in; "" is any, and none.
	Namespace string
	// Labels must match the object's; nil is everything. Its Requirements are
	// what counts: a selector of another kind than those of package labels is not called.
	Labels labels.Selector
	// Fields must match the object's; nil is everything. A field is named as in JSON, with dots
	// between objects: status.phase. Unlike a server's, any string, boolean or integer can be asked for. One that
	// is absent equals "". Typed objects know which fields there are, and others fail with ErrNoField.
	Fields fields.Selector
	// After leaves out the keys up to and including this one.
	After string
	// Limit is how many objects are returned at most; 0 is all of them. The
	// key of the last one is the next Query's After.
	Limit int
}

// Matches reports whether q selects obj, wherever it comes from. After and Limit do not count, and the namespace is
// that of its metadata. It fails with ErrNoField if objects of its type have no such field.
func (q Query) Matches(obj runtime.Object) (bool, error) { return newMatcher(q, false).object(obj) }

// ForEntries returns a function that reports whether q selects an entry whose payload c reads. It decodes only what the
// bytes do not tell. Keys are taken to be client-go's, and After and Limit do not count. The function must not be called
// concurrently.
func (q Query) ForEntries(c codec.Codec) func(entry.Entry) (bool, error) {
	m := newMatcher(q, true)
	return func(e entry.Entry) (bool, error) {
		if !strings.HasPrefix(e.Key, m.prefix) {
			return false, nil
		}
		if match, known := m.payload(c, e.Encoding, e.Payload); known {
			return match, nil
		}
		obj, err := codec.Decode(c, e.Encoding, e.Payload)
		if err != nil {
			return false, fmt.Errorf("%s: %w", printable.Key(e.Key), err)
		}
		return m.object(obj)
	}
}

// matcher is a Query made ready for one read. It is not safe for concurrent use.
type matcher struct {
	prefix string // of the keys
	none   bool   // nothing matches
	labels labels.Requirements
	fields []fieldMatch
	pairs  labelPairs // of the object at hand
	paths  map[reflect.Type][]*codec.FieldPath
	peeked []codec.Field // what fields are for the codec of the payloads; one is nil where only decoding can tell
}

// fieldMatch is what one field must be, or must not be.
type fieldMatch struct {
	name  string
	path  []string
	value string
	not   bool
}

// newMatcher takes selectors apart, so that no code of the user's runs later.
// namespaced says that keys are those of cache.MetaNamespaceKeyFunc.
func newMatcher(q Query, namespaced bool) *matcher {
	m := &matcher{}
	if q.Labels != nil {
		requirements, selectable := q.Labels.Requirements()
		m.labels, m.none = requirements, !selectable
	}
	if q.Fields != nil {
		requirements := q.Fields.Requirements()
		m.none = m.none || len(requirements) == 0 && !q.Fields.Empty()
		for _, r := range requirements {
			m.require(r.Field, r.Value, r.Operator == selection.NotEquals)
		}
	}
	switch {
	case q.Namespace == "":
	case namespaced:
		m.prefix = q.Namespace + "/"
	default:
		m.require("metadata.namespace", q.Namespace, false)
	}
	return m
}

func (m *matcher) require(field, value string, not bool) {
	m.fields = append(m.fields, fieldMatch{name: field, path: strings.Split(field, "."), value: value, not: not})
}

// all reports whether every object matches.
func (m *matcher) all() bool { return !m.none && len(m.labels) == 0 && len(m.fields) == 0 }

// payload reports whether the object in a payload matches. known is false if only decoding can tell.
func (m *matcher) payload(c codec.Codec, encoding string, payload []byte) (match, known bool) {
	if m.none || m.all() {
		return !m.none, true
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

// fieldsOf returns the fields as the codec of the payloads finds them.
func (m *matcher) fieldsOf(p codec.Peeker) []codec.Field {
	if m.peeked == nil {
		m.peeked = make([]codec.Field, len(m.fields))
		for i, f := range m.fields {
			m.peeked[i] = p.Field(f.path)
		}
	}
	return m.peeked
}

// matchLabels reports whether ls match.
func (m *matcher) matchLabels(ls labels.Labels) bool {
	for i := range m.labels {
		if !m.labels[i].Matches(ls) {
			return false
		}
	}
	return true
}

// object reports whether obj matches. It fails if there is no such field in objects of its type.
func (m *matcher) object(obj runtime.Object) (bool, error) {
	if m.none || m.all() {
		return !m.none, nil
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

func (m *matcher) unstructuredFields(u *unstructured.Unstructured) bool {
	for _, f := range m.fields {
		v, _, _ := unstructured.NestedFieldNoCopy(u.Object, f.path...) //nolint:errcheck // or it has no such field
		if f.not == (codec.PlainText(v) == f.value) {
			return false
		}
	}
	return true
}

func (m *matcher) typedFields(obj runtime.Object) (bool, error) {
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

// pathsOf finds the fields in objects of a Go type.
func (m *matcher) pathsOf(t reflect.Type) ([]*codec.FieldPath, error) {
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

// labelPairs are labels as they stand in a payload. They implement labels.Labels
// without a map; of two with the same name the last one counts.
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
