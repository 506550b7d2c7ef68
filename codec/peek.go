package codec

import (
	"reflect"

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
