package codec

import (
	"encoding/json"
	"reflect"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/larder-dev/larder/internal/msgpack"
)

// Peeker is a codec that reads labels and fields of an object from its payload, with the result that decoding would
// give. If a payload is unusual, for example if a field occurs twice, known is false and the caller has to decode the
// payload.
type Peeker interface {
	// Labels returns the labels of an object, as slices of payload. It overwrites dst and grows it if needed. If a label's
	// name occurs twice, the last value is valid.
	Labels(dst []Label, encoding string, payload []byte) (labels []Label, known bool)
	// Field returns the field at a path of JSON names. It returns nil if only decoding can read the field, as for numbers
	// of typed objects.
	Field(path []string) Field
}

// Label is a label of an object; Name and Value are slices of a payload.
type Label struct{ Name, Value []byte }

// Field reads one field of objects from the payloads of one codec.
type Field interface {
	// Is reports whether the text of the field equals want. The text of a typed object's field is FieldPath.Text, and
	// PlainText for an unstructured object; it is "" for an absent field. known is false if the caller has to decode the
	// payload.
	Is(encoding string, payload []byte, want string) (is, known bool)
}

// Protobuf field numbers of labels in metav1.ObjectMeta, and of the key and value in a map's entry.
const (
	protoLabels   = 11
	protoMapKey   = 1
	protoMapValue = 2
)

// cutField splits a message after its first field. value is nil unless the field is length-delimited.
func cutField(msg []byte) (number protowire.Number, value, rest []byte, ok bool) {
	number, wire, encoded, rest, ok := cutEncoded(msg)
	if ok && wire == protowire.BytesType {
		value, ok = content(wire, encoded)
	}
	return number, value, rest, ok
}

// cutEncoded splits a message after its first field. value is the encoded value without its tag.
func cutEncoded(msg []byte) (number protowire.Number, wire protowire.Type, value, rest []byte, ok bool) {
	number, wire, n := protowire.ConsumeTag(msg)
	if n < 0 {
		return 0, 0, nil, nil, false
	}
	size := protowire.ConsumeFieldValue(number, wire, msg[n:])
	if size < 0 {
		return 0, 0, nil, nil, false
	}
	return number, wire, msg[n : n+size], msg[n+size:], true
}

// onlyField returns the length-delimited value of a field in a message, or nil if the field is absent. ok is false if
// the message is malformed, or if the field occurs twice or has another wire type.
func onlyField(msg []byte, number protowire.Number) (found []byte, ok bool) {
	for len(msg) > 0 {
		at, value, rest, ok := cutField(msg)
		if !ok || at == number && (found != nil || value == nil) {
			return nil, false
		}
		if at == number {
			found = value
		}
		msg = rest
	}
	return found, true
}

func (c *protobufCodec) Labels(dst []Label, encoding string, payload []byte) (labels []Label, known bool) {
	_, _, msg, ok := cutMessage(payload)
	if encoding != EncodingProtobuf || c.metadata == 0 || !ok {
		return dst[:0], false
	}
	return protobufLabels(dst[:0], msg, c.metadata)
}

// protobufLabels appends the labels of an object. metadata is the field number of the ObjectMeta in msg.
func protobufLabels(dst []Label, msg []byte, metadata protowire.Number) (labels []Label, known bool) {
	rest, ok := onlyField(msg, metadata)
	if !ok {
		return dst, false
	}
	for len(rest) > 0 {
		var number protowire.Number
		var pair []byte
		if number, pair, rest, ok = cutField(rest); !ok {
			return dst, false
		}
		if number != protoLabels {
			continue
		}
		name, ok := onlyField(pair, protoMapKey)
		value, ok2 := onlyField(pair, protoMapValue)
		if pair == nil || !ok || !ok2 {
			return dst, false
		}
		dst = append(dst, Label{Name: name, Value: value})
	}
	return dst, true
}

// protobufField is the path to a string in a message, as field numbers.
type protobufField []protowire.Number

// Field supports only strings: selectors rarely use other fields, and numbers have several encodings.
func (c *protobufCodec) Field(path []string) Field {
	p := NewFieldPath(c.typ, path)
	if p == nil || p.kind != reflect.String {
		return nil
	}
	var f protobufField
	for _, s := range p.steps {
		if s.number == 0 {
			return nil
		}
		f = append(f, s.number)
	}
	return f
}

func (f protobufField) Is(encoding string, payload []byte, want string) (is, known bool) {
	_, _, msg, ok := cutMessage(payload)
	if encoding != EncodingProtobuf || !ok {
		return false, false
	}
	for _, number := range f {
		if msg, ok = onlyField(msg, number); !ok || msg == nil {
			return want == "", ok
		}
	}
	return string(msg) == want, true
}

// Labels reads a null value as "", and returns no labels at all if a value is not a string, as Unstructured.GetLabels
// does.
func (c *unstructuredCodec) Labels(dst []Label, encoding string, payload []byte) (labels []Label, known bool) {
	dst = dst[:0]
	if typed, message := c.kinds.ofPayload(encoding, payload); typed != nil {
		return protobufLabels(dst, message, typed.metadata)
	}
	if encoding != EncodingMsgpack || isTypedPayload(payload) {
		return dst, false
	}
	r := msgpack.NewReader(payload)
	if !r.Enter("metadata") || !r.Enter("labels") || !r.IsMap() {
		return dst, r.Err == nil
	}
	for range r.MapLen() {
		name := r.Bytes()
		c, _ := r.Peek()
		switch {
		case msgpack.IsText(c):
			dst = append(dst, Label{Name: name, Value: r.Bytes()})
		case c == msgpack.TypeNil:
			dst = append(dst, Label{Name: name})
			r.Skip(1)
		default:
			return dst[:0], r.Err == nil
		}
	}
	return dst, r.Err == nil
}

type msgpackField struct {
	c    *unstructuredCodec
	path []string
}

// Field never returns nil, because any path is valid for unstructured objects.
func (c *unstructuredCodec) Field(path []string) Field { return msgpackField{c, path} }

func (f msgpackField) Is(encoding string, payload []byte, want string) (is, known bool) {
	if encoding != EncodingMsgpack || isTypedPayload(payload) {
		return false, false
	}
	r := valueReader{msgpack.NewReader(payload), &f.c.texts}
	for _, name := range f.path {
		if !r.Enter(name) {
			return want == "", r.Err == nil
		}
	}
	c, _ := r.Peek()
	switch {
	case r.Err != nil:
	case msgpack.IsText(c):
		is = string(r.Bytes()) == want
	case r.IsMap(), msgpack.IsArray(c), c == msgpack.TypeExt8:
		is = want == ""
	default:
		is = PlainText(r.value(0)) == want
	}
	return is, r.Err == nil
}

// Labels also reads payloads of typed objects, whose labels are the same in unstructured form. viewCodec reads other
// fields only from msgpack, because a typed field's text may differ from the unstructured one.
func (c *viewCodec) Labels(dst []Label, encoding string, payload []byte) (labels []Label, known bool) {
	if encoding == EncodingMsgpack {
		return c.unstructuredCodec.Labels(dst, encoding, payload)
	}
	if p, ok := c.typed.(Peeker); ok {
		return p.Labels(dst, encoding, payload)
	}
	return dst[:0], false
}

// FieldPath is a path from a Go struct to a string, boolean or integer field.
type FieldPath struct {
	steps []fieldStep
	kind  reflect.Kind
}

type fieldStep struct {
	index    int              // index of the Go struct's field
	number   protowire.Number // field number in the protobuf message; 0 for none
	optional bool             // true for a pointer field
}

// NewFieldPath returns the FieldPath of a string, boolean or integer along JSON names in the Go type t, or nil.
func NewFieldPath(t reflect.Type, names []string) *FieldPath {
	p := &FieldPath{}
	for _, name := range names {
		if t = p.enter(t, name); t == nil {
			return nil
		}
	}
	switch p.kind = t.Kind(); p.kind {
	case reflect.String, reflect.Bool,
		reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		if !marshalsItself(t) {
			return p
		}
	}
	return nil
}

// enter appends to p the steps to the field with a JSON name in t, and returns the field's type.
func (p *FieldPath) enter(t reflect.Type, name string) reflect.Type {
	if t.Kind() != reflect.Struct || marshalsItself(t) {
		return nil
	}
	var inline []reflect.StructField
	for i := range t.NumField() {
		f := t.Field(i)
		tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case tag == "-":
		case f.Anonymous && tag == "":
			inline = append(inline, f)
		case f.IsExported() && (tag == name || tag == "" && f.Name == name):
			return p.step(f)
		}
	}
	for _, f := range inline {
		before := p.steps
		if found := p.enter(p.step(f), name); found != nil {
			return found
		}
		p.steps = before
	}
	return nil
}

func (p *FieldPath) step(f reflect.StructField) reflect.Type {
	s := fieldStep{index: f.Index[0], number: protobufNumber(f)}
	t := f.Type
	if s.optional = t.Kind() == reflect.Pointer; s.optional {
		t = t.Elem()
	}
	p.steps = append(p.steps, s)
	return t
}

// protobufNumber returns the protobuf number of a Go field, or 0. It ignores "rep" in the tag, which the generator also
// writes for some strings, such as corev1.PodStatus.QOSClass.
func protobufNumber(f reflect.StructField) protowire.Number {
	tag := strings.Split(f.Tag.Get("protobuf"), ",")
	if len(tag) < 2 {
		return 0
	}
	n, err := strconv.ParseInt(tag[1], 10, 32)
	if err != nil || !protowire.Number(n).IsValid() {
		return 0
	}
	return protowire.Number(n)
}

// marshalsItself reports whether t has its own JSON method, so that its Go fields do not determine its JSON.
func marshalsItself(t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(reflect.TypeFor[json.Marshaler]())
}

// Text returns the text of the field in the struct v, or "" if a pointer on the path is nil.
func (p *FieldPath) Text(v reflect.Value) string {
	for _, s := range p.steps {
		v = v.Field(s.index)
		if !s.optional {
			continue
		}
		if v.IsNil() {
			return ""
		}
		v = v.Elem()
	}
	switch {
	case p.kind == reflect.String:
		return v.String()
	case p.kind == reflect.Bool:
		return strconv.FormatBool(v.Bool())
	case v.CanInt():
		return strconv.FormatInt(v.Int(), 10)
	}
	return strconv.FormatUint(v.Uint(), 10)
}

// PlainText returns a value of an unstructured object as text, in the form of FieldPath.Text.
func PlainText(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case bool:
		return strconv.FormatBool(v)
	case int64:
		return strconv.FormatInt(v, 10)
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64)
	}
	return ""
}

// protoManagedFields is the field number of managedFields in a metav1.ObjectMeta message.
const protoManagedFields = 17

// OmitManagedFields returns a payload without metadata.managedFields. Decoding them takes two fifths of an object's
// decoding time, and few printers show them. c must be a codec of View. Typed objects in JSON and malformed payloads
// are returned unchanged.
func OmitManagedFields(c Codec, encoding string, payload []byte) []byte {
	v, ok := c.(*viewCodec)
	switch {
	case !ok:
	case encoding == EncodingMsgpack && !isTypedPayload(payload):
		return omitFromMap(payload)
	case encoding == EncodingProtobuf:
		typed, ok := v.typed.(*protobufCodec)
		_, _, msg, whole := cutMessage(payload)
		if !ok || !whole || typed.metadata == 0 {
			break
		}
		out := append(make([]byte, 0, len(payload)), payload[:len(payload)-len(msg)]...)
		if out, ok = omitFromMessage(out, msg, typed.metadata); ok {
			return out
		}
	}
	return payload
}

func omitFromMap(payload []byte) []byte {
	r := msgpack.NewReader(payload)
	if !r.Enter("metadata") || !r.IsMap() {
		return payload
	}
	head := r.Pos
	members := r.MapLen()
	body := r.Pos
	for range members {
		start := r.Pos
		name := string(r.Bytes())
		r.Skip(1)
		if r.Err != nil {
			return payload
		}
		if name == "managedFields" {
			out := append(make([]byte, 0, len(payload)), payload[:head]...)
			out = msgpack.AppendMapLen(out, members-1)
			return append(append(out, payload[body:start]...), payload[r.Pos:]...)
		}
	}
	return payload
}

// omitFromMessage appends msg to out, without the managedFields in field metadata, or returns false if msg is
// malformed.
func omitFromMessage(out, msg []byte, metadata protowire.Number) ([]byte, bool) {
	for len(msg) > 0 {
		number, value, rest, ok := cutField(msg)
		switch {
		case !ok, number == metadata && value == nil:
			return nil, false
		case number == metadata:
			kept := make([]byte, 0, len(value))
			for len(value) > 0 {
				in, _, rest, ok := cutField(value)
				if !ok {
					return nil, false
				}
				if in != protoManagedFields {
					kept = append(kept, value[:len(value)-len(rest)]...)
				}
				value = rest
			}
			out = protowire.AppendBytes(protowire.AppendTag(out, number, protowire.BytesType), kept)
		default:
			out = append(out, msg[:len(msg)-len(rest)]...)
		}
		msg = rest
	}
	return out, true
}
