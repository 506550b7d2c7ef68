package codec

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"google.golang.org/protobuf/encoding/protowire"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/base"
	"github.com/larder-dev/larder/internal/msgpack"
)

// protobufVersion is part of the fingerprint. Raise it when the form of protobuf payloads changes.
const protobufVersion = 1

type protobufMessage interface {
	runtime.Object
	Size() int
	MarshalToSizedBuffer(data []byte) (int, error)
	Unmarshal(data []byte) error
}

// protobufCodec writes payloads of three parts. Protobuf messages have no TypeMeta, and the decoded object needs it.
//
//	uvarint, apiVersion
//	uvarint, kind
//	message                to the end
type protobufCodec struct {
	typ reflect.Type
	// fingerprint and nested are computed on demand, since they visit the whole type. nested reports whether a value of
	// the type can hold a runtime.RawExtension.
	fingerprint func() string
	nested      func() bool
	// metadata is the protobuf number of the field of type metav1.ObjectMeta; 0 for none.
	metadata protowire.Number
	// last is the TypeMeta of the last decoded object, which the next object nearly always shares.
	last atomic.Pointer[metav1.TypeMeta]
}

func newProtobufCodec(t reflect.Type) *protobufCodec {
	return &protobufCodec{
		typ:         t,
		fingerprint: sync.OnceValue(func() string { return typeFingerprint(EncodingProtobuf, protobufVersion, t) }),
		nested:      sync.OnceValue(func() bool { return holdsRawExtension(t) }),
		metadata:    metadataNumber(t),
	}
}

func metadataNumber(t reflect.Type) protowire.Number {
	f, ok := t.FieldByName("ObjectMeta")
	if !ok || !f.Anonymous || len(f.Index) > 1 || f.Type != reflect.TypeFor[metav1.ObjectMeta]() {
		return 0
	}
	_, number, _ := strings.Cut(f.Tag.Get("protobuf"), ",")
	number, _, _ = strings.Cut(number, ",")
	n, err := strconv.ParseInt(number, 10, 32)
	if err != nil {
		return 0
	}
	return protowire.Number(n)
}

// generatesProtobuf reports whether *t has its own protobuf methods. A type without them may promote those of an
// embedded metav1.ObjectMeta, which would silently drop every other field. So each field must have the generator's tag.
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

func (c *protobufCodec) Name() string                   { return EncodingProtobuf }
func (c *protobufCodec) Fingerprint() string            { return c.fingerprint() }
func (c *protobufCodec) Check(obj runtime.Object) error { return checkType(obj, c.typ) }

func (c *protobufCodec) Append(dst []byte, obj runtime.Object) ([]byte, error) {
	if err := c.Check(obj); err != nil {
		return dst, err
	}
	if c.nested() && holdsDecodedExtension(reflect.ValueOf(obj)) {
		return dst, fmt.Errorf("encode %T: %w", obj, errDecodedExtension)
	}
	m := obj.(protobufMessage)
	size := m.Size()
	apiVersion, kind := typeMeta(obj)
	out := protowire.AppendString(protowire.AppendString(dst, apiVersion), kind)
	start := len(out)
	out = slices.Grow(out, size)[:start+size]
	n, err := m.MarshalToSizedBuffer(out[start:])
	if err != nil {
		return dst, fmt.Errorf("encode %T: %w", obj, err)
	}
	if n != size {
		// The object's Size method is wrong, or another goroutine changed the object meanwhile.
		return dst, fmt.Errorf("encode %T: %d bytes written where %d were announced", obj, n, size)
	}
	return out, nil
}

func (c *protobufCodec) Decode(data []byte) (runtime.Object, error) {
	apiVersion, kind, message, ok := cutMessage(data)
	if !ok {
		return nil, fmt.Errorf("decode *%s: apiVersion and kind: %w: %w", c.typ, msgpack.ErrTruncated, entry.ErrDamaged)
	}
	m, err := c.unmarshal(message)
	if err != nil {
		fails := func(message []byte) bool {
			_, err := c.unmarshal(message)
			return err != nil
		}
		why := entry.ErrDamaged
		if base.Panicked(err) {
			why = entry.ErrIncompatible
		}
		return nil, fmt.Errorf("decode *%s: %w: %w", c.typ, atProtobuf(err, c.typ, message, fails), why)
	}
	if len(apiVersion) > 0 || len(kind) > 0 {
		meta := c.typeMeta(apiVersion, kind)
		setTypeMeta(m, meta.APIVersion, meta.Kind)
	}
	return m, nil
}

func (c *protobufCodec) unmarshal(message []byte) (m protobufMessage, err error) {
	m = reflect.New(c.typ).Interface().(protobufMessage)
	return m, unmarshal(c.typ, func() error { return m.Unmarshal(message) })
}

func (c *protobufCodec) typeMeta(apiVersion, kind []byte) *metav1.TypeMeta {
	last := c.last.Load()
	if last == nil || last.APIVersion != string(apiVersion) || last.Kind != string(kind) {
		last = &metav1.TypeMeta{APIVersion: string(apiVersion), Kind: string(kind)}
		c.last.Store(last)
	}
	return last
}

// decodeEncoding also decodes msgpack, which an earlier build wrote if the type had no generated protobuf then.
func (c *protobufCodec) decodeEncoding(encoding string, data []byte) (runtime.Object, error) {
	if encoding == EncodingMsgpack {
		return decodeTyped(c.typ, data)
	}
	return nil, unknownEncoding(encoding, c)
}

// typeMeta returns an object's apiVersion and kind unchanged.
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

// cutMessage splits a payload of protobufCodec. The results are slices of data.
func cutMessage(data []byte) (apiVersion, kind, message []byte, ok bool) {
	apiVersion, n := protowire.ConsumeBytes(data)
	if n < 0 {
		return nil, nil, nil, false
	}
	kind, m := protowire.ConsumeBytes(data[n:])
	if m < 0 {
		return nil, nil, nil, false
	}
	return apiVersion, kind, data[n+m:], true
}

// Message returns the protobuf message in a payload of EncodingProtobuf, as an API server sends it in a list. The
// message is a slice of the payload, at its end. The error wraps entry.ErrDamaged.
func Message(payload []byte) ([]byte, error) {
	_, _, message, ok := cutMessage(payload)
	if !ok {
		return nil, fmt.Errorf("apiVersion and kind of a message: %w: %w", msgpack.ErrTruncated, entry.ErrDamaged)
	}
	return message, nil
}

// kinds caches the protobuf codecs of the kinds of a scheme. It is safe for concurrent use.
type kinds struct {
	scheme *runtime.Scheme
	known  sync.Map // *protobufCodec by metav1.TypeMeta; nil for a kind without one
}

// of returns the protobuf codec of a kind, or nil.
func (k *kinds) of(m metav1.TypeMeta) *protobufCodec {
	if k == nil {
		return nil
	}
	if found, ok := k.known.Load(m); ok {
		return found.(*protobufCodec)
	}
	var typed *protobufCodec
	if obj, err := k.scheme.New(schema.FromAPIVersionAndKind(m.APIVersion, m.Kind)); err == nil {
		if c, err := For(obj); err == nil {
			typed, _ = c.(*protobufCodec)
		}
	}
	if typed != nil && typed.metadata == 0 {
		typed = nil
	}
	found, _ := k.known.LoadOrStore(m, typed)
	return found.(*protobufCodec)
}

// ofPayload returns the codec of the kind that a protobuf payload names, and the payload's message. The codec is nil if
// the scheme has none for the kind.
func (k *kinds) ofPayload(encoding string, payload []byte) (c *protobufCodec, message []byte) {
	if k == nil || encoding != EncodingProtobuf {
		return nil, nil
	}
	apiVersion, kind, message, ok := cutMessage(payload)
	if !ok {
		return nil, nil
	}
	return k.of(metav1.TypeMeta{APIVersion: string(apiVersion), Kind: string(kind)}), message
}

// decodeUnstructured decodes a protobuf payload as an unstructured object. If messageOf has no description of the Go
// type, or the payload is unusual, it decodes a Go object and converts that.
func (c *protobufCodec) decodeUnstructured(payload []byte, texts *textTables) (runtime.Object, error) {
	if apiVersion, kind, msg, ok := cutMessage(payload); ok {
		m, content := messageOf(c.typ), map[string]any{}
		if m != nil && m.read(msg, content, texts) {
			if len(apiVersion) > 0 {
				content["apiVersion"] = texts.values.value(apiVersion)
			}
			if len(kind) > 0 {
				content["kind"] = texts.values.value(kind)
			}
			return &unstructured.Unstructured{Object: content}, nil
		}
	}
	obj, err := c.Decode(payload)
	if err != nil {
		return nil, err
	}
	return toUnstructured(obj)
}

func toUnstructured(obj runtime.Object) (runtime.Object, error) {
	m, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		// The converter's error is not wrapped, because it may quote the object.
		return nil, fmt.Errorf("%T cannot be shown as an unstructured object: %w", obj, entry.ErrIncompatible)
	}
	return &unstructured.Unstructured{Object: m}, nil
}

// A runtime.RawExtension holds an object either as the server's bytes, or decoded. Generated protobuf methods write
// only the bytes, and silently lose a decoded object. So protobufCodec checks objects of the few types that can hold a
// RawExtension (ten in k8s.io/api): holdsRawExtension reports whether a type can.
func holdsRawExtension(t reflect.Type) bool {
	return searchRawExtension(t, map[reflect.Type]bool{})
}

func searchRawExtension(t reflect.Type, seen map[reflect.Type]bool) bool {
	if t == reflect.TypeFor[runtime.RawExtension]() {
		return true
	}
	if seen[t] {
		return false
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return searchRawExtension(t.Elem(), seen)
	case reflect.Struct:
		for i := range t.NumField() {
			if searchRawExtension(t.Field(i).Type, seen) {
				return true
			}
		}
	}
	return false
}

// holdsDecodedExtension reports whether a RawExtension in v holds a decoded object and no bytes.
func holdsDecodedExtension(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Pointer:
		return !v.IsNil() && holdsDecodedExtension(v.Elem())
	case reflect.Slice, reflect.Array:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return false
		}
		for i := range v.Len() {
			if holdsDecodedExtension(v.Index(i)) {
				return true
			}
		}
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			if holdsDecodedExtension(it.Value()) {
				return true
			}
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[runtime.RawExtension]() {
			return v.FieldByName("Raw").Len() == 0 && !v.FieldByName("Object").IsNil()
		}
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() && holdsDecodedExtension(v.Field(i)) {
				return true
			}
		}
	}
	return false
}
