package codec

import (
	"encoding/binary"
	"reflect"
	"strconv"

	"github.com/larder-dev/larder/internal/msgpack"
)

// Peeker is a codec that reads labels and fields of an object from its payload, without decoding it. It says only what
// decoding would say too: whatever is unusual in a payload, such as a field that occurs twice, it leaves to that.
type Peeker interface {
	// Labels returns the labels of the object, in dst if there is room; of two with one name the last one counts. They
	// are part of the payload. known is false if only decoding can tell.
	Labels(dst []Label, encoding string, payload []byte) (labels []Label, known bool)
	// Field returns the field with that path, whose names are those of JSON; nil if only decoding can tell.
	Field(path []string) Field
}

// Label is a label as it stands in a payload.
type Label struct{ Name, Value []byte }

// Field is a field of the objects of one codec.
type Field interface {
	// Is reports whether the field's text is want: that of FieldPath.Text, or of PlainText for an unstructured object.
	// The text of a field that is absent is "". known is false if only decoding can tell.
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

// onlyField returns the one field of that number in a message.
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

// Labels reads those of the message's metav1.ObjectMeta.
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

// inMessage reports whether text would return want for the object in a message.
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

// absent is the text where the message lacks the field of that step.
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

// number is the text of a varint as the generated methods understand it.
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

// Labels reads them as Unstructured.GetLabels does: null is "", and a value of another type makes that there are none.
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

// Field returns the field, whatever objects have it.
func (c *unstructuredCodec) Field(path []string) Field { return msgpackField{c, path} }

// Is goes down the maps of the payload.
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

// Labels are what other objects have in common with their unstructured form; their fields are not.
func (c *viewCodec) Labels(dst []Label, encoding string, payload []byte) (labels []Label, known bool) {
	if encoding == EncodingMsgpack {
		return c.unstructuredCodec.Labels(dst, encoding, payload)
	}
	if p, ok := c.typed.(Peeker); ok {
		return p.Labels(dst, encoding, payload)
	}
	return dst[:0], false
}
