package codec

import (
	"encoding/base64"
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// message describes the protobuf messages of a Go type, for decoding as unstructured content without the Go type. The
// result equals the server's JSON: a field that the server's type lacks is absent, even if this program's type would
// write its zero value.
type message struct {
	fields []*messageField // fields is indexed by protobuf field number; nil for an unused number.
	// nulls are the JSON names of fields that are null, not absent, if the message lacks them.
	nulls []string
}

type messageField struct {
	name string // JSON name; "" for an inlined field
	// kind is the kind of the value, or of the elements of a list or map.
	kind        messageKind
	list, isMap bool
	omitEmpty   bool
	bits32      bool         // true for 32-bit integers and floats
	inner       *message     // description of the value's message for the kind nested
	typ         reflect.Type // Go type that decodes a value of the kind leaf
}

// messageKind selects how to decode a value. The kinds before timestamp have an empty value, which omitempty omits.
type messageKind int

const (
	str messageKind = iota + 1
	boolean
	integer
	float
	binary
	timestamp // metav1.Time
	quantity  // resource.Quantity
	nested    // a message, described by messageField.inner
	managed   // metav1.FieldsV1, which is JSON
	leaf      // a type with its own methods for protobuf, and perhaps JSON
)

// messages caches the results of messageOf by Go type. The few types make a bound unnecessary.
var messages sync.Map

// messageOf returns the description of a struct type, or nil if only the Go type can decode its messages.
func messageOf(t reflect.Type) *message {
	if m, ok := messages.Load(t); ok {
		return m.(*message)
	}
	m := newMessage(t, map[reflect.Type]*message{})
	messages.Store(t, m)
	return m
}

// newMessage is messageOf without the cache. made has the descriptions of the types visited so far, because types may
// be recursive.
func newMessage(t reflect.Type, made map[reflect.Type]*message) *message {
	if m, ok := made[t]; ok {
		return m
	}
	m := &message{}
	made[t] = m
	for i := range t.NumField() {
		field := t.Field(i)
		number := protobufNumber(field)
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		if number == 0 || name == "-" {
			continue
		}
		f := &messageField{name: name}
		of := f.shape(field.Type)
		if !f.setKind(of, made) {
			return nil
		}
		optional := field.Type.Kind() == reflect.Pointer
		omits := strings.Contains(options, "omitempty") && f.kind < timestamp || strings.Contains(options, "omitzero")
		f.omitEmpty = omits && !optional
		switch field.Type.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Map:
			if !strings.Contains(options, "omit") {
				m.nulls = append(m.nulls, name)
			}
		}
		if n := int(number); n >= len(m.fields) {
			m.fields = append(m.fields, make([]*messageField, n+1-len(m.fields))...)
		}
		m.fields[number] = f
	}
	return m
}

// shape sets the fields list and isMap, and returns the type of the value or of the elements.
func (f *messageField) shape(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t.Kind() == reflect.Slice && t.Elem().Kind() != reflect.Uint8 && !isLeaf(t):
		f.list, t = true, t.Elem()
	case t.Kind() == reflect.Map && t.Key().Kind() == reflect.String && !isLeaf(t):
		f.isMap, t = true, t.Elem()
	}
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t
}

func isLeaf(t reflect.Type) bool {
	own := reflect.PointerTo(t).Implements(reflect.TypeFor[interface{ Unmarshal(data []byte) error }]())
	return own && (t.Kind() != reflect.Struct || marshalsItself(t))
}

// setKind sets kind, bits32, inner and typ. It returns false if values of type t need the Go type of the whole message.
func (f *messageField) setKind(t reflect.Type, made map[reflect.Type]*message) bool {
	switch {
	case t == reflect.TypeFor[metav1.Time]():
		f.kind, f.typ = timestamp, t
	case t == reflect.TypeFor[resource.Quantity]():
		f.kind, f.typ = quantity, t
	case t == reflect.TypeFor[metav1.FieldsV1]():
		f.kind, f.typ = managed, t
	case isLeaf(t):
		f.kind, f.typ = leaf, t
	case marshalsItself(t):
		return false
	default:
		return f.setPlain(t, made)
	}
	return true
}

func (f *messageField) setPlain(t reflect.Type, made map[reflect.Type]*message) bool {
	f.bits32 = t.Kind() == reflect.Int32 || t.Kind() == reflect.Float32
	switch t.Kind() {
	case reflect.String:
		f.kind = str
	case reflect.Bool:
		f.kind = boolean
	case reflect.Int32, reflect.Int64:
		f.kind = integer
	case reflect.Float32, reflect.Float64:
		f.kind = float
	case reflect.Slice:
		f.kind = binary
	case reflect.Struct:
		f.kind, f.inner = nested, newMessage(t, made)
		return f.inner != nil
	}
	return f.kind != 0
}

// read adds the fields of the encoded message msg to object. It returns false if msg is malformed or unusual.
func (m *message) read(msg []byte, object map[string]any, texts *textTables) bool {
	for len(msg) > 0 {
		number, wire, value, rest, ok := cutEncoded(msg)
		if !ok {
			return false
		}
		msg = rest
		if int(number) >= len(m.fields) || m.fields[number] == nil {
			continue
		}
		if !m.fields[number].add(object, wire, value, texts) {
			return false
		}
	}
	for _, name := range m.nulls {
		if _, has := object[name]; !has {
			object[name] = nil
		}
	}
	return true
}

func (f *messageField) add(object map[string]any, wire protowire.Type, value []byte, texts *textTables) bool {
	switch {
	case f.name == "":
		inner, ok := content(wire, value)
		return ok && f.kind == nested && f.inner.read(inner, object, texts)
	case f.isMap:
		return f.addEntry(object, wire, value, texts)
	case f.list:
		v, _, ok := f.value(wire, value, texts)
		list, _ := object[f.name].([]any)
		object[f.name] = append(list, v)
		return ok // ok is false for a packed list, which has several elements in one value.
	}
	if _, twice := object[f.name]; twice {
		return false // The field occurs twice, and protobuf would merge the values.
	}
	v, zero, ok := f.value(wire, value, texts)
	if ok && !(zero && f.omitEmpty) {
		object[f.name] = v
	}
	return ok
}

func (f *messageField) addEntry(object map[string]any, wire protowire.Type, value []byte, texts *textTables) bool {
	entry, ok := content(wire, value)
	if !ok {
		return false
	}
	key, valueWire, encodedValue := "", protowire.BytesType, []byte{0} // An entry without a value has the length 0.
	for len(entry) > 0 {
		number, w, encoded, rest, ok := cutEncoded(entry)
		if !ok {
			return false
		}
		switch number {
		case protoMapKey:
			name, ok := content(w, encoded)
			if !ok {
				return false
			}
			key = texts.names.name(name)
		case protoMapValue:
			valueWire, encodedValue = w, encoded
		}
		entry = rest
	}
	v, _, ok := f.value(valueWire, encodedValue, texts)
	entries, has := object[f.name].(map[string]any)
	if !has {
		entries = map[string]any{}
		object[f.name] = entries
	}
	entries[key] = v
	return ok
}

// content returns the bytes of a length-delimited value. ok is false for other wire types.
func content(wire protowire.Type, value []byte) (b []byte, ok bool) {
	if wire != protowire.BytesType {
		return nil, false
	}
	b, n := protowire.ConsumeBytes(value)
	return b, n >= 0
}

// value decodes one encoded value of the field f. zero reports whether it is the zero value of its Go type.
func (f *messageField) value(wire protowire.Type, value []byte, texts *textTables) (v any, zero, ok bool) {
	switch f.kind {
	case boolean, integer:
		n, size := protowire.ConsumeVarint(value)
		if wire != protowire.VarintType || size < 0 {
			return nil, false, false
		}
		if f.kind == boolean {
			return n != 0, n == 0, true
		}
		if f.bits32 {
			return int64(int32(n)), int32(n) == 0, true //nolint:gosec // The generated code converts likewise.
		}
		return int64(n), n == 0, true //nolint:gosec // The generated code converts likewise.
	case float:
		return f.float(wire, value)
	}
	b, ok := content(wire, value)
	if !ok {
		return nil, false, false
	}
	switch f.kind {
	case str:
		return texts.values.value(b), len(b) == 0, true
	case binary:
		return base64.StdEncoding.EncodeToString(b), len(b) == 0, true
	case nested:
		inner := map[string]any{}
		ok := f.inner.read(b, inner, texts)
		return inner, false, ok
	case timestamp:
		if seconds, ok := wholeSeconds(b); ok {
			return time.Unix(seconds, 0).UTC().Format(time.RFC3339), false, true
		}
	case quantity:
		if s, ok := onlyField(b, 1); ok && len(s) > 0 {
			return texts.values.value(s), false, true
		}
	case managed:
		if raw, ok := onlyField(b, 1); ok && len(raw) > 0 {
			v, ok := tree(raw, texts)
			return v, false, ok
		}
	}
	return f.leaf(b)
}

func (f *messageField) float(wire protowire.Type, value []byte) (v any, zero, ok bool) {
	var n float64
	switch {
	case f.bits32 && wire == protowire.Fixed32Type:
		bits, _ := protowire.ConsumeFixed32(value)
		n = float64(math.Float32frombits(bits))
	case !f.bits32 && wire == protowire.Fixed64Type:
		bits, _ := protowire.ConsumeFixed64(value)
		n = math.Float64frombits(bits)
	default:
		return nil, false, false
	}
	return n, n == 0, true
}

// wholeSeconds returns the Unix time of an encoded metav1.Time. ok is false before 1970, or with nanoseconds.
func wholeSeconds(msg []byte) (seconds int64, ok bool) {
	for len(msg) > 0 {
		number, wire, n := protowire.ConsumeTag(msg)
		if n < 0 || wire != protowire.VarintType {
			return 0, false
		}
		v, size := protowire.ConsumeVarint(msg[n:])
		switch {
		case size < 0, number == 2 && v != 0:
			return 0, false
		case number == 1:
			seconds = int64(v) //nolint:gosec // negative values are refused below
		}
		msg = msg[n+size:]
	}
	return seconds, seconds > 0 && seconds < 1<<37 // 1<<37 seconds is the year 6325.
}

// leaf decodes msg into a new value of the Go type f.typ, and returns that value's JSON form.
func (f *messageField) leaf(msg []byte) (v any, zero, ok bool) {
	made := reflect.New(f.typ)
	if f.typ.Kind() == reflect.Slice { // Generated code makes an empty slice, not nil, for a value of a map.
		made.Elem().Set(reflect.MakeSlice(f.typ, 0, 0))
	}
	if err := made.Interface().(interface{ Unmarshal(data []byte) error }).Unmarshal(msg); err != nil {
		return nil, false, false
	}
	zero = made.Elem().IsZero()
	if z, has := made.Interface().(interface{ IsZero() bool }); has {
		zero = z.IsZero()
	}
	if f.omitEmpty && zero {
		return nil, true, true
	}
	raw, err := json.Marshal(made.Interface())
	if err != nil {
		return nil, false, false
	}
	err = utiljson.Unmarshal(raw, &v)
	return v, zero, err == nil
}
