package codec

import (
	"errors"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/msgpack"
)

// maxDepth bounds nested maps and slices. encoding/json has the same limit, so no server's object is deeper.
const maxDepth = 10000

// Msgpack extensions, without data, for a nil map and a nil slice: they differ from a nil value and from empty ones.
const (
	extNilMap   = 1
	extNilSlice = 2
)

var errNotJSON = errors.New(
	"not a type that unstructured objects hold (string, int64, float64, bool, nil, map[string]any, []any)")

// unstructuredCodec preserves *unstructured.Unstructured exactly. The payload is the object's map in msgpack, with
// sorted keys. An int64 is the shortest msgpack integer, and a float64 always a 64-bit float, so that the two stay
// distinct.
type unstructuredCodec struct {
	texts   textTables
	writers sync.Pool // holds *valueWriter values, to reuse their stacks
	kinds   *kinds    // decodes protobuf payloads; nil for a codec that reads none
}

// Unstructured returns the codec for *unstructured.Unstructured. Its fingerprint is constant: unknown fields stay.
func Unstructured() Codec { return &unstructuredCodec{} }

// UnstructuredWith returns a codec like Unstructured that also decodes the protobuf of the kinds in a scheme. So a
// server's protobuf of Kubernetes' own kinds can be stored unchanged, which takes a third of the time that JSON takes.
// A field that the server knows and the scheme does not is stored, but missing in the decoded object.
func UnstructuredWith(scheme *runtime.Scheme) Codec {
	return &unstructuredCodec{kinds: &kinds{scheme: scheme}}
}

func (c *unstructuredCodec) decodeEncoding(encoding string, data []byte) (runtime.Object, error) {
	typed, _ := c.kinds.ofPayload(encoding, data)
	if typed == nil {
		return nil, unknownEncoding(encoding, c)
	}
	return typed.decodeUnstructured(data, &c.texts)
}

func (c *unstructuredCodec) Name() string { return EncodingMsgpack }

func (c *unstructuredCodec) Fingerprint() string {
	return fmt.Sprintf("unstructured-%d", msgpackVersion)
}

// Check also refuses lists. A custom resource may have a field named items, but unlike a list it has a name.
func (c *unstructuredCodec) Check(obj runtime.Object) error {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return fmt.Errorf("object is a %T, the collection holds *unstructured.Unstructured", obj)
	}
	if u == nil {
		return errors.New("object is a nil *unstructured.Unstructured")
	}
	if u.IsList() && u.GetName() == "" {
		return errors.New("object is a list in an *unstructured.Unstructured; store its items")
	}
	return nil
}

func (c *unstructuredCodec) Append(dst []byte, obj runtime.Object) ([]byte, error) {
	if err := c.Check(obj); err != nil {
		return dst, err
	}
	w, ok := c.writers.Get().(*valueWriter)
	if !ok {
		w = &valueWriter{}
	}
	out, err := w.object(dst, obj.(*unstructured.Unstructured).Object)
	if err != nil {
		return dst, fmt.Errorf("encode unstructured object: %w", err)
	}
	c.writers.Put(w)
	return out, nil
}

func (c *unstructuredCodec) Decode(data []byte) (runtime.Object, error) {
	r := valueReader{msgpack.NewReader(data), &c.texts}
	v := r.value(0)
	r.End()
	m, ok := v.(map[string]any)
	if r.Err == nil && !ok {
		r.Fail(fmt.Errorf("a %T where the object should be", v))
	}
	if r.Err != nil {
		return nil, fmt.Errorf("decode unstructured object: %w: %w", r.Err, entry.ErrDamaged)
	}
	return &unstructured.Unstructured{Object: m}, nil
}

// valueWriter appends the values of unstructured objects as msgpack. After an error it must not be used again.
type valueWriter struct {
	depth int
	// fields is a stack of the sorted fields of the maps that are being written.
	fields []valueField
}

type valueField struct {
	name  string
	value any
}

func (w *valueWriter) value(dst []byte, v any) ([]byte, error) {
	switch v := v.(type) {
	case nil:
		return append(dst, msgpack.TypeNil), nil
	case string:
		return msgpack.AppendText(dst, v), nil
	case bool:
		return msgpack.AppendBool(dst, v), nil
	case int64:
		return msgpack.AppendInt(dst, v), nil
	case float64:
		return msgpack.AppendFloat(dst, v), nil
	case map[string]any:
		return w.object(dst, v)
	case []any:
		return w.array(dst, v)
	}
	return dst, fmt.Errorf("%T: %w", v, errNotJSON)
}

func (w *valueWriter) object(dst []byte, m map[string]any) ([]byte, error) {
	if m == nil {
		return msgpack.AppendExt(dst, extNilMap), nil
	}
	if w.depth++; w.depth > maxDepth {
		return dst, errTooDeep
	}
	dst = msgpack.AppendMapLen(dst, len(m))
	start := len(w.fields)
	for name, value := range m {
		w.fields = append(w.fields, valueField{name, value})
	}
	end := len(w.fields)
	slices.SortFunc(w.fields[start:end], func(a, b valueField) int { return strings.Compare(a.name, b.name) })
	for i := start; i < end; i++ {
		f := w.fields[i]
		var err error
		if dst, err = w.value(msgpack.AppendText(dst, f.name), f.value); err != nil {
			return dst, atField(err, "."+f.name)
		}
	}
	clear(w.fields[start:end])
	w.fields = w.fields[:start]
	w.depth--
	return dst, nil
}

func (w *valueWriter) array(dst []byte, s []any) ([]byte, error) {
	if s == nil {
		return msgpack.AppendExt(dst, extNilSlice), nil
	}
	if w.depth++; w.depth > maxDepth {
		return dst, errTooDeep
	}
	dst = msgpack.AppendArrayLen(dst, len(s))
	for i, v := range s {
		var err error
		if dst, err = w.value(dst, v); err != nil {
			return dst, atField(err, fmt.Sprintf("[%d]", i))
		}
	}
	w.depth--
	return dst, nil
}

type valueReader struct {
	msgpack.Reader
	texts *textTables
}

func (r *valueReader) value(depth int) any {
	c, ok := r.Peek()
	switch {
	case !ok:
		return nil
	case c <= msgpack.MaxPositive || c >= msgpack.TypeNegative:
		return r.Int(c)
	case c < msgpack.TypeFixArray:
		return r.object(depth + 1)
	case c < msgpack.TypeFixText:
		return r.array(depth + 1)
	case c < msgpack.TypeNil:
		return r.texts.values.value(r.Bytes())
	}
	switch c {
	case msgpack.TypeNil:
		r.Pos++
		return nil
	case msgpack.TypeFalse, msgpack.TypeTrue:
		r.Pos++
		return c == msgpack.TypeTrue
	case msgpack.TypeText8, msgpack.TypeText8 + 1, msgpack.TypeText32:
		return r.Str()
	case msgpack.TypeUint8, msgpack.TypeUint8 + 1, msgpack.TypeUint8 + 2, msgpack.TypeUint64, msgpack.TypeInt8,
		msgpack.TypeInt8 + 1, msgpack.TypeInt8 + 2, msgpack.TypeInt64:
		return r.Int(c)
	case msgpack.TypeFloat64:
		return r.Float()
	case msgpack.TypeMap16, msgpack.TypeMap32:
		return r.object(depth + 1)
	case msgpack.TypeArray16, msgpack.TypeArray32:
		return r.array(depth + 1)
	case msgpack.TypeExt8:
		return r.typedNil()
	}
	r.Unexpected("a value")
	return nil
}

func (r *valueReader) object(depth int) map[string]any {
	if depth > maxDepth {
		r.Fail(errTooDeep)
		return nil
	}
	n := r.MapLen()
	m := make(map[string]any, n)
	last := ""
	for i := range n {
		k := r.texts.names.name(r.Bytes())
		if i > 0 && k <= last {
			r.Fail(msgpack.ErrUnsorted)
		}
		v := r.value(depth)
		if r.Err != nil {
			return nil
		}
		m[k] = v
		last = k
	}
	return m
}

func (r *valueReader) array(depth int) []any {
	if depth > maxDepth {
		r.Fail(errTooDeep)
		return nil
	}
	s := make([]any, r.ArrayLen())
	for i := range s {
		if s[i] = r.value(depth); r.Err != nil {
			return nil
		}
	}
	return s
}

func (r *valueReader) typedNil() any {
	switch id := r.Ext(); id {
	case extNilMap:
		return map[string]any(nil)
	case extNilSlice:
		return []any(nil)
	default:
		r.Fail(fmt.Errorf("unknown extension %d", id))
	}
	return nil
}

var errViewReadOnly = errors.New("a view's codec only reads")

type viewCodec struct {
	unstructuredCodec
	// typed decodes protobuf payloads; nil for a collection without protobuf.
	typed Codec
}

// View returns a codec that decodes a collection's payloads to *unstructured.Unstructured, for any representation.
// typed is the codec of the objects' Go type, for payloads in protobuf: typed collections and UnstructuredWith have
// them. Otherwise typed may be nil. An object stored without apiVersion and kind, as by typed clients, is decoded
// without them. The codec's Append fails.
func View(r entry.Representation, typed Codec) (Codec, error) {
	if r == entry.Metadata {
		c, err := For(&metav1.PartialObjectMetadata{})
		if err != nil {
			return nil, err
		}
		typed = c
	}
	return &viewCodec{typed: typed}, nil
}

func (c *viewCodec) Append(dst []byte, _ runtime.Object) ([]byte, error) {
	return dst, errViewReadOnly
}

// Decode decodes only msgpack payloads; the function Decode also decodes protobuf with this codec.
func (c *viewCodec) Decode(data []byte) (runtime.Object, error) {
	if isTypedPayload(data) {
		return decodeTypedLoose(data)
	}
	return c.unstructuredCodec.Decode(data)
}

func (c *viewCodec) decodeEncoding(encoding string, data []byte) (runtime.Object, error) {
	if c.typed == nil {
		return nil, fmt.Errorf("%s payload: give the codec that wrote it: %w", encoding, entry.ErrIncompatible)
	}
	if typed, ok := c.typed.(*protobufCodec); ok && encoding == EncodingProtobuf {
		return typed.decodeUnstructured(data, &c.texts)
	}
	obj, err := Decode(c.typed, encoding, data)
	if err != nil {
		return nil, err
	}
	return toUnstructured(obj)
}

const (
	textSlots  = 1024 // slots of a table; a power of two
	maxNameLen = 64
	// maxValueLen excludes values that differ in nearly every object: UIDs, and the names of generated objects.
	maxValueLen = 24
	// A new string whose two slots are taken replaces one of their strings with probability 1/textChance.
	textChance = 16
)

var hashSeed = maphash.MakeSeed()

// textTables caches strings that many objects of a collection share.
type textTables struct {
	names  textTable // names of object fields
	values textTable // short strings, such as kinds, phases and images' pull policies
}

// textTable is a bounded cache of frequent strings, so that decoding does not allocate them each time. A string has two
// possible slots. If both are taken, a new string rarely replaces one of their strings, so frequent strings stay.
// Concurrent decoders mostly read. textTable is safe for concurrent use; the zero value is empty.
type textTable struct {
	slots [textSlots]atomic.Pointer[text]
}

// text holds a string also in an interface, because converting it each time would allocate.
type text struct {
	s     string
	boxed any
}

func (t *textTable) name(b []byte) string {
	if len(b) > maxNameLen {
		return string(b)
	}
	found, slot := t.find(b)
	if found != nil {
		return found.s
	}
	s := string(b)
	if slot != nil {
		slot.Store(&text{s: s, boxed: s})
	}
	return s
}

func (t *textTable) value(b []byte) any {
	if len(b) > maxValueLen {
		return string(b)
	}
	found, slot := t.find(b)
	if found != nil {
		return found.boxed
	}
	s := string(b)
	var boxed any = s
	if slot != nil {
		slot.Store(&text{s: s, boxed: boxed})
	}
	return boxed
}

// find returns the cached text of b, or a slot that a new text may take, or two nils.
func (t *textTable) find(b []byte) (*text, *atomic.Pointer[text]) {
	at := maphash.Bytes(hashSeed, b) % textSlots
	slots := [2]*atomic.Pointer[text]{&t.slots[at], &t.slots[at^1]}
	for _, slot := range slots {
		found := slot.Load()
		if found == nil {
			return nil, slot
		}
		if found.s == string(b) {
			return found, nil
		}
	}
	if n := rand.Uint32() % (2 * textChance); n < 2 {
		return nil, slots[n]
	}
	return nil, nil
}
