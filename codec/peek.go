package codec

import (
	"reflect"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/larder-dev/larder/internal/msgpack"
)

// Peeker is a codec that reads labels and fields of an object from its payload without decoding it. The result is the
// same as after decoding. If a payload is unusual, for example if a field occurs twice, known is false and the caller
// has to decode it.
type Peeker interface {
	// Labels returns the labels of the object. It overwrites dst and grows it if needed. If a name occurs twice, the last
	// one is valid. The labels share memory with payload. known is false if the payload has to be decoded.
	Labels(dst []Label, encoding string, payload []byte) (labels []Label, known bool)
	// Field returns the field at a path of JSON names; nil if payloads have to be decoded to read it, as for numbers of
	// typed objects.
	Field(path []string) Field
}

// Label is the name and value of a label, as slices of the payload.
type Label struct{ Name, Value []byte }

// Field reads one field, at a fixed path, from the payloads of one codec.
type Field interface {
	// Is reports whether the text of the field equals want. The text is that of FieldPath.Text, or of PlainText for an
	// unstructured object; it is "" if an object lacks the field. known is false if the payload has to be decoded.
	Is(encoding string, payload []byte, want string) (is, known bool)
}

// Field numbers in the messages of a metav1.ObjectMeta and of a map's entry.
const (
	protoLabels   = 11
	protoMapKey   = 1
	protoMapValue = 2
)

// cutField splits a message after its first field. It returns the field's number, its value if that is of bytes, and
// the rest.
func cutField(msg []byte) (number protowire.Number, value, rest []byte, ok bool) {
	number, wire, encoded, rest, ok := cutEncoded(msg)
	if ok && wire == protowire.BytesType {
		value, ok = content(wire, encoded)
	}
	return number, value, rest, ok
}

// cutEncoded splits a message after its first field. It returns the field's number, its encoded value, and the rest.
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

// onlyField returns the value of the field of that number in a message; nil if there is none. ok is false if the
// message is malformed, or if the field occurs twice or is not of bytes.
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

// Labels implements Peeker. It reads the labels of the metav1.ObjectMeta in the message.
func (c *protobufCodec) Labels(dst []Label, encoding string, payload []byte) (labels []Label, known bool) {
	_, _, msg, ok := cutMessage(payload)
	if encoding != EncodingProtobuf || c.metadata == 0 || !ok {
		return dst[:0], false
	}
	return protobufLabels(dst[:0], msg, c.metadata)
}

// protobufLabels appends the labels of an object whose ObjectMeta is the field of that number.
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

// protobufField is the path to a string in a message: the field numbers of its steps.
type protobufField []protowire.Number

// Field implements Peeker. It supports strings: selectors rarely use other fields, and numbers have several encodings.
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

// Is implements Field. A message without one of the fields has the text "".
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

// Labels implements Peeker. Like Unstructured.GetLabels it reads null as "", and returns no labels at all if a value
// has another type than string.
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

// msgpackField is the path to a field of an unstructured object in msgpack.
type msgpackField struct {
	c    *unstructuredCodec
	path []string
}

// Field implements Peeker. It never returns nil: any path is valid for unstructured objects.
func (c *unstructuredCodec) Field(path []string) Field { return msgpackField{c, path} }

// Is implements Field. It follows the path through the maps of the payload.
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

// Labels implements Peeker, for payloads of typed objects too: their labels are the same in unstructured form. The text
// of their fields may differ, so fields are read from msgpack payloads only.
func (c *viewCodec) Labels(dst []Label, encoding string, payload []byte) (labels []Label, known bool) {
	if encoding == EncodingMsgpack {
		return c.unstructuredCodec.Labels(dst, encoding, payload)
	}
	if p, ok := c.typed.(Peeker); ok {
		return p.Labels(dst, encoding, payload)
	}
	return dst[:0], false
}
