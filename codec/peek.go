package codec

import (
	"encoding/binary"
	"reflect"
	"strconv"

	"github.com/larder-dev/larder/internal/msgpack"
)

// Peeker is a codec that reads labels and fields of an object from its payload without decoding it. The result is the
// same as after decoding. If a payload is unusual, for example if a field occurs twice, known is false and the caller
// has to decode it.
type Peeker interface {
	// Labels returns the labels of the object. It overwrites dst and grows it if needed. If a name occurs twice, the last
	// one is valid. The labels share memory with payload. known is false if the payload has to be decoded.
	Labels(dst []Label, encoding string, payload []byte) (labels []Label, known bool)
	// Field returns the field at a path of JSON names; nil if payloads have to be decoded to read it.
	Field(path []string) Field
}

// Label is the name and value of a label, as slices of the payload.
type Label struct{ Name, Value []byte }

// Field is a field of the objects of one codec.
type Field interface {
	// Is reports whether the text of the field equals want. The text is that of FieldPath.Text, or of PlainText for an
	// unstructured object; it is "" if an object lacks the field. known is false if the payload has to be decoded.
	Is(encoding string, payload []byte, want string) (is, known bool)
}

// The fields of a metav1.ObjectMeta message, and of the entries of a map.
const (
	protoLabels   = 11
	protoMapKey   = 1
	protoMapValue = 2
)

// The wire types of protobuf. Groups are not used.
const (
	wireVarint = 0
	wire64     = 1
	wireBytes  = 2
	wire32     = 5
)

// protoField is one field of a protobuf message.
type protoField struct {
	number uint64
	wire   byte
	bytes  []byte // part of the message
	varint uint64
}

// cutField returns the first field of a message, and what follows it.
func cutField(msg []byte) (f protoField, rest []byte, ok bool) {
	tag, n := binary.Uvarint(msg)
	f.number, f.wire = tag>>3, byte(tag&7)
	if n <= 0 || f.number == 0 || f.number >= 1<<29 {
		return f, nil, false
	}
	rest = msg[n:]
	switch f.wire {
	case wireVarint:
		f.varint, n = binary.Uvarint(rest)
		if n <= 0 {
			return f, nil, false
		}
		return f, rest[n:], true
	case wireBytes:
		f.bytes, rest, ok = cutText(rest)
		return f, rest, ok
	case wire64:
		n = 8
	case wire32:
		n = 4
	default:
		return f, nil, false
	}
	if len(rest) < n {
		return f, nil, false
	}
	return f, rest[n:], true
}

// onlyField returns the field of that number in a message; present is false if there is none. ok is false if the
// message is malformed, or if the field occurs twice or has another wire type.
func onlyField(msg []byte, number uint64, wire byte) (found protoField, present, ok bool) {
	for len(msg) > 0 {
		f, rest, ok := cutField(msg)
		if !ok || f.number == number && (present || f.wire != wire) {
			return found, false, false
		}
		if f.number == number {
			found, present = f, true
		}
		msg = rest
	}
	return found, present, true
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
func protobufLabels(dst []Label, msg []byte, metadata uint64) (labels []Label, known bool) {
	meta, _, ok := onlyField(msg, metadata, wireBytes)
	if !ok {
		return dst, false
	}
	for rest := meta.bytes; len(rest) > 0; {
		var f protoField
		if f, rest, ok = cutField(rest); !ok {
			return dst, false
		}
		if f.number != protoLabels {
			continue
		}
		if f.wire != wireBytes {
			return dst, false
		}
		name, _, ok := onlyField(f.bytes, protoMapKey, wireBytes)
		value, _, ok2 := onlyField(f.bytes, protoMapValue, wireBytes)
		if !ok || !ok2 {
			return dst, false
		}
		dst = append(dst, Label{Name: name.bytes, Value: value.bytes})
	}
	return dst, true
}

// protobufField is a field of a message.
type protobufField struct{ path *FieldPath }

// Field finds the field in the type.
func (c *protobufCodec) Field(path []string) Field {
	if p := NewFieldPath(c.typ, path); p != nil {
		return protobufField{p}
	}
	return nil
}

// Is looks into the message.
func (f protobufField) Is(encoding string, payload []byte, want string) (is, known bool) {
	_, _, msg, ok := cutMessage(payload)
	if encoding != EncodingProtobuf || !ok {
		return false, false
	}
	return f.path.inMessage(msg, want)
}

// inMessage reports whether Text would return want for the object that is encoded in msg. ok is false if the message
// has to be decoded to tell.
func (p *FieldPath) inMessage(msg []byte, want string) (equal, ok bool) {
	last := len(p.steps) - 1
	for i, s := range p.steps {
		if s.number == 0 {
			return false, false
		}
		wire := byte(wireBytes)
		if i == last && p.kind != reflect.String {
			wire = wireVarint
		}
		f, present, ok := onlyField(msg, s.number, wire)
		switch {
		case !ok:
			return false, false
		case !present:
			return p.absent(i) == want, true
		case i == last && p.kind == reflect.String:
			return string(f.bytes) == want, true
		case i == last:
			return p.number(f.varint) == want, true
		}
		msg = f.bytes
	}
	return false, false
}

// absent returns the text of a path if the message lacks the field of the given step: "" or the zero value.
func (p *FieldPath) absent(step int) string {
	for _, s := range p.steps[step:] {
		if s.optional {
			return ""
		}
	}
	if p.kind == reflect.String {
		return ""
	}
	return p.number(0)
}

// number returns the text of a varint, converted to the Go type of the field as the generated Unmarshal does.
func (p *FieldPath) number(n uint64) string {
	switch p.kind {
	case reflect.Bool:
		return strconv.FormatBool(n != 0)
	case reflect.Int8:
		return strconv.FormatInt(int64(int8(n)), 10)
	case reflect.Int16:
		return strconv.FormatInt(int64(int16(n)), 10)
	case reflect.Int32:
		return strconv.FormatInt(int64(int32(n)), 10)
	case reflect.Int, reflect.Int64:
		return strconv.FormatInt(int64(n), 10)
	case reflect.Uint8:
		return strconv.FormatUint(uint64(uint8(n)), 10)
	case reflect.Uint16:
		return strconv.FormatUint(uint64(uint16(n)), 10)
	case reflect.Uint32:
		return strconv.FormatUint(uint64(uint32(n)), 10)
	}
	return strconv.FormatUint(n, 10)
}

// Labels implements Peeker. Like Unstructured.GetLabels it reads null as "", and returns no labels at all if a value
// has another type than string.
func (c *unstructuredCodec) Labels(dst []Label, encoding string, payload []byte) (labels []Label, known bool) {
	dst = dst[:0]
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

// msgpackField is a field of an unstructured object.
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
