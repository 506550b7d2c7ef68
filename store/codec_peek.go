package store

import (
	"encoding/binary"
	"reflect"
	"strconv"
)

// What is read here are payloads that were not decoded. It claims to know only
// what decoding would say too: whatever is unusual in a payload, such as a field
// that occurs twice, is left to that.

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
		f.bytes, rest, ok = cutSized(rest)
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

func (c *protobufCodec) peek(encoding string, payload []byte, m *matcher) (match, known bool) {
	if encoding != encodingProtobuf {
		return false, false
	}
	_, _, msg, ok := cutMessage(payload)
	if !ok {
		return false, false
	}
	if len(m.labels) > 0 {
		if c.metadata == 0 || !m.pairs.fromProtobuf(msg, c.metadata) {
			return false, false
		}
		if !m.matchLabels(&m.pairs) {
			return false, true
		}
	}
	if len(m.fields) == 0 {
		return true, true
	}
	paths, err := m.pathsOf(c.typ)
	if err != nil {
		return false, false
	}
	for i, f := range m.fields {
		equal, ok := paths[i].inMessage(msg, f.value)
		if !ok {
			return false, false
		}
		if equal == f.not {
			return false, true
		}
	}
	return true, true
}

// fromProtobuf reads the labels of an object whose ObjectMeta is the field of that number.
func (l *labelPairs) fromProtobuf(msg []byte, metadata uint64) bool {
	l.pairs = l.pairs[:0]
	meta, _, ok := onlyField(msg, metadata, wireBytes)
	if !ok {
		return false
	}
	for rest := meta.bytes; len(rest) > 0; {
		var f protoField
		if f, rest, ok = cutField(rest); !ok {
			return false
		}
		if f.number != protoLabels {
			continue
		}
		if f.wire != wireBytes {
			return false
		}
		name, _, ok := onlyField(f.bytes, protoMapKey, wireBytes)
		value, _, ok2 := onlyField(f.bytes, protoMapValue, wireBytes)
		if !ok || !ok2 {
			return false
		}
		l.pairs = append(l.pairs, labelPair{name: name.bytes, value: value.bytes})
	}
	return true
}

// inMessage reports whether text would return want for the object in a message.
func (p *fieldPath) inMessage(msg []byte, want string) (equal, ok bool) {
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
func (p *fieldPath) absent(step int) string {
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
func (p *fieldPath) number(n uint64) string {
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

func (c *unstructuredCodec) peek(encoding string, payload []byte, m *matcher) (match, known bool) {
	if encoding != encodingMsgpack || isTypedPayload(payload) {
		return false, false
	}
	if len(m.labels) > 0 {
		if !m.pairs.fromMsgpack(payload) {
			return false, false
		}
		if !m.matchLabels(&m.pairs) {
			return false, true
		}
	}
	for _, f := range m.fields {
		equal, ok := fieldInMsgpack(payload, f.path, f.value)
		if !ok {
			return false, false
		}
		if equal == f.not {
			return false, true
		}
	}
	return true, true
}

// peek looks into what is stored as other objects by what these have in common with their unstructured form: labels.
func (c *viewCodec) peek(encoding string, payload []byte, m *matcher) (match, known bool) {
	if encoding == encodingMsgpack {
		return c.unstructuredCodec.peek(encoding, payload, m)
	}
	if p, ok := c.typed.(peeker); ok && len(m.fields) == 0 {
		return p.peek(encoding, payload, m)
	}
	return false, false
}

// fromMsgpack reads labels as Unstructured.GetLabels does: null is "", and a value of
// another type makes that there are none.
func (l *labelPairs) fromMsgpack(payload []byte) bool {
	l.pairs = l.pairs[:0]
	r := newMsgpackReader(payload)
	if !r.enter("metadata") || !r.enter("labels") || !r.isMap() {
		return r.err == nil
	}
	for range r.mapLen() {
		name := r.bytes()
		c, _ := r.peek()
		switch {
		case isText(c):
			l.pairs = append(l.pairs, labelPair{name: name, value: r.bytes()})
		case c == typeNil:
			l.pairs = append(l.pairs, labelPair{name: name})
			r.skip(1)
		default:
			l.pairs = l.pairs[:0]
			return r.err == nil
		}
	}
	return r.err == nil
}

// fieldInMsgpack reports whether plainText would return want for the field.
func fieldInMsgpack(payload []byte, path []string, want string) (equal, ok bool) {
	r := newMsgpackReader(payload)
	for _, name := range path {
		if !r.enter(name) {
			return want == "", r.err == nil
		}
	}
	c, _ := r.peek()
	switch {
	case r.err != nil:
	case isText(c):
		equal = string(r.bytes()) == want
	case r.isMap(), isArray(c), c == typeExt8:
		equal = want == ""
	default:
		equal = plainText(r.value(0)) == want
	}
	return equal, r.err == nil
}

func isText(c byte) bool { return c&^maxFixText == typeFixText || typeText8 <= c && c <= typeText32 }

func isArray(c byte) bool {
	return c&^maxFixArray == typeFixArray || c == typeArray16 || c == typeArray32
}

// isMap reports whether the next value is a map.
func (r *msgpackReader) isMap() bool {
	c, ok := r.peek()
	return ok && (c&^maxFixMap == typeFixMap || c == typeMap16 || c == typeMap32)
}

// enter goes to the field of that name if the next value is a map that has it.
func (r *msgpackReader) enter(name string) bool {
	if !r.isMap() {
		return false
	}
	for range r.mapLen() {
		k := r.bytes()
		if string(k) == name {
			return r.err == nil
		}
		if r.err != nil || string(k) > name { // they are in order
			return false
		}
		r.skip(1)
	}
	return false
}
