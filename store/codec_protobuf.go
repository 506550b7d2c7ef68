package store

import (
	"encoding/binary"
	"fmt"
	"reflect"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// protobufVersion is part of the fingerprint; raise it when the payload's
// form changes.
const protobufVersion = 1

// protobufMessage is what go-to-protobuf generates.
type protobufMessage interface {
	runtime.Object
	Size() int
	MarshalToSizedBuffer(data []byte) (int, error)
	Unmarshal(data []byte) error
}

// protobufCodec writes
//
//	uvarint, apiVersion    TypeMeta is no part of the protobuf messages, and an
//	uvarint, kind          object must come back with it exactly if it had it
//	message                to the end
type protobufCodec struct {
	typ         reflect.Type
	fingerprint string
	// nested is set if the type holds a runtime.RawExtension somewhere.
	nested bool
}

func newProtobufCodec(t reflect.Type) *protobufCodec {
	return &protobufCodec{
		typ:         t,
		fingerprint: typeFingerprint(encodingProtobuf, protobufVersion, t),
		nested:      holdsRawExtension(t),
	}
}

// generatesProtobuf reports whether *t has protobuf methods of its own. A type
// without them can still have those of an embedded metav1.ObjectMeta, which
// would silently drop every other field; therefore each field must bear
// the tag that the generator goes by.
func generatesProtobuf(t reflect.Type) bool {
	if !reflect.PointerTo(t).Implements(reflect.TypeFor[protobufMessage]()) {
		return false
	}
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Type == reflect.TypeFor[metav1.TypeMeta]() {
			continue
		}
		if tag := f.Tag.Get("protobuf"); tag == "" || tag == "-" {
			return false
		}
	}
	return true
}

func (c *protobufCodec) Name() string                   { return encodingProtobuf }
func (c *protobufCodec) Fingerprint() string            { return c.fingerprint }
func (c *protobufCodec) Check(obj runtime.Object) error { return checkType(obj, c.typ) }

// encodedSize implements sureEncoder. What is nested in a RawExtension may not be possible to encode.
func (c *protobufCodec) encodedSize(obj runtime.Object) (n int, ok bool) {
	if c.nested || c.Check(obj) != nil {
		return 0, false
	}
	apiVersion, kind := typeMeta(obj)
	return obj.(protobufMessage).Size() + len(apiVersion) + len(kind) + 2, true
}

func (c *protobufCodec) Append(dst []byte, obj runtime.Object) ([]byte, error) {
	if err := c.Check(obj); err != nil {
		return dst, err
	}
	if c.nested {
		if err := checkRawExtensions(reflect.ValueOf(obj).Elem()); err != nil {
			return dst, err
		}
	}
	m := obj.(protobufMessage)
	size := m.Size()
	apiVersion, kind := typeMeta(obj)
	out := appendSized(appendSized(dst, apiVersion), kind)
	start := len(out)
	out = slices.Grow(out, size)[:start+size]
	n, err := m.MarshalToSizedBuffer(out[start:])
	if err != nil {
		return dst, fmt.Errorf("encode %T: %w", obj, err)
	}
	if n != size {
		// Its Size method lies, or somebody changes the object while it is read.
		return dst, fmt.Errorf("encode %T: %d bytes written where %d were announced", obj, n, size)
	}
	return out, nil
}

func (c *protobufCodec) Decode(data []byte) (runtime.Object, error) {
	apiVersion, rest, ok := cutSized(data)
	kind, rest, ok2 := cutSized(rest)
	if !ok || !ok2 {
		return nil, fmt.Errorf("decode *%s: apiVersion and kind: %w: %w", c.typ, errTruncated, ErrDamaged)
	}
	m := reflect.New(c.typ).Interface().(protobufMessage)
	if err := m.Unmarshal(rest); err != nil {
		return nil, fmt.Errorf("decode %T: %w: %w", m, err, ErrDamaged)
	}
	setTypeMeta(m, apiVersion, kind)
	return m, nil
}

// decodeEncoding reads what was written while the type had no protobuf.
func (c *protobufCodec) decodeEncoding(encoding string, data []byte) (runtime.Object, error) {
	switch encoding {
	case encodingProtobuf:
		return c.Decode(data)
	case encodingMsgpack:
		return decodeTyped(c.typ, data)
	}
	return nil, unknownEncoding(encoding, c)
}

// typeMeta returns an object's apiVersion and kind as they stand.
func typeMeta(obj runtime.Object) (apiVersion, kind string) {
	k := obj.GetObjectKind()
	if m, ok := k.(*metav1.TypeMeta); ok {
		return m.APIVersion, m.Kind
	}
	return k.GroupVersionKind().ToAPIVersionAndKind()
}

func setTypeMeta(obj runtime.Object, apiVersion, kind string) {
	k := obj.GetObjectKind()
	if m, ok := k.(*metav1.TypeMeta); ok {
		m.APIVersion, m.Kind = apiVersion, kind
		return
	}
	k.SetGroupVersionKind(schema.FromAPIVersionAndKind(apiVersion, kind))
}

// cutSized is the inverse of appendSized; s does not share data's memory.
func cutSized(data []byte) (s string, rest []byte, ok bool) {
	size, n := binary.Uvarint(data)
	if n <= 0 || size > uint64(len(data)-n) {
		return "", nil, false
	}
	return string(data[n : n+int(size)]), data[n+int(size):], true
}
