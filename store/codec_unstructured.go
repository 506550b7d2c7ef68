package store

import (
	"errors"
	"fmt"
	"slices"

	"github.com/vmihailenco/msgpack/v5"
	"github.com/vmihailenco/msgpack/v5/msgpcode"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// maxDepth is how deep maps and slices may be nested: as deep as encoding/json
// allows, which bounds what a server can send.
const maxDepth = 10000

// The msgpack extensions that stand for a nil map and a nil slice, which are
// neither nil nor empty. They have no data.
const (
	extNilMap   = 1
	extNilSlice = 2
)

var errNotJSON = errors.New("not a type that unstructured objects hold (string, int64, float64, bool, nil, map[string]any, []any)")

// unstructuredCodec keeps *unstructured.Unstructured exactly. The payload is
// the object's map in msgpack: keys sorted, an int64 as the shortest msgpack
// integer, a float64 always as a 64 bit float, so that the two stay apart.
type unstructuredCodec struct {
	names nameTable
}

// UnstructuredCodec returns the msgpack codec for *unstructured.Unstructured.
// Its fingerprint is constant: unknown fields are kept.
func UnstructuredCodec() Codec { return &unstructuredCodec{} }

func (c *unstructuredCodec) Name() string { return encodingMsgpack }

func (c *unstructuredCodec) Fingerprint() string {
	return fmt.Sprintf("unstructured-%d", msgpackVersion)
}

// Check refuses lists too. A custom resource may have a field named items, but
// unlike a list it has a name.
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
	w := valueWriter{sink: byteSink{data: dst}, enc: msgpack.GetEncoder()}
	defer msgpack.PutEncoder(w.enc)
	w.enc.Reset(&w.sink)
	if err := w.object(obj.(*unstructured.Unstructured).Object); err != nil {
		return dst, fmt.Errorf("encode unstructured object: %w", err)
	}
	return w.sink.data, nil
}

func (c *unstructuredCodec) Decode(data []byte) (runtime.Object, error) {
	r := newMsgpackReader(data)
	defer r.release()
	r.names = &c.names
	v := r.value(0)
	if r.err == nil && r.src.left() > 0 {
		r.fail(errTrailing)
	}
	m, ok := v.(map[string]any)
	if r.err == nil && !ok {
		r.fail(fmt.Errorf("a %T where the object should be", v))
	}
	if r.err != nil {
		return nil, fmt.Errorf("decode unstructured object: %w: %w", r.err, ErrDamaged)
	}
	return &unstructured.Unstructured{Object: m}, nil
}

// valueWriter writes the values of unstructured objects. Writes to its sink
// can not fail, so their errors are not looked at.
type valueWriter struct {
	sink  byteSink
	enc   *msgpack.Encoder
	depth int
	// keys is a stack of the sorted keys of the maps that are open.
	keys []string
}

func (w *valueWriter) value(v any) error {
	switch v := v.(type) {
	case nil:
		_ = w.enc.EncodeNil()
	case string:
		_ = w.enc.EncodeString(v)
	case bool:
		_ = w.enc.EncodeBool(v)
	case int64:
		_ = w.enc.EncodeInt(v)
	case float64:
		_ = w.enc.EncodeFloat64(v)
	case map[string]any:
		return w.object(v)
	case []any:
		return w.array(v)
	default:
		return fmt.Errorf("%T: %w", v, errNotJSON)
	}
	return nil
}

func (w *valueWriter) object(m map[string]any) error {
	if m == nil {
		_ = w.enc.EncodeExtHeader(extNilMap, 0)
		return nil
	}
	if w.depth++; w.depth > maxDepth {
		return errTooDeep
	}
	_ = w.enc.EncodeMapLen(len(m))
	start := len(w.keys)
	for k := range m {
		w.keys = append(w.keys, k)
	}
	end := len(w.keys)
	slices.Sort(w.keys[start:end])
	for i := start; i < end; i++ {
		k := w.keys[i]
		_ = w.enc.EncodeString(k)
		if err := w.value(m[k]); err != nil {
			return atField(err, "."+k)
		}
	}
	clear(w.keys[start:end])
	w.keys = w.keys[:start]
	w.depth--
	return nil
}

func (w *valueWriter) array(s []any) error {
	if s == nil {
		_ = w.enc.EncodeExtHeader(extNilSlice, 0)
		return nil
	}
	if w.depth++; w.depth > maxDepth {
		return errTooDeep
	}
	_ = w.enc.EncodeArrayLen(len(s))
	for i, v := range s {
		if err := w.value(v); err != nil {
			return atField(err, fmt.Sprintf("[%d]", i))
		}
	}
	w.depth--
	return nil
}

// value reads what valueWriter.value wrote.
func (r *msgpackReader) value(depth int) any {
	c := r.peek()
	switch {
	case r.err != nil:
		return nil
	case msgpcode.IsString(c):
		return r.str()
	case msgpcode.IsFixedMap(c), c == msgpcode.Map16, c == msgpcode.Map32:
		return r.object(depth + 1)
	case msgpcode.IsFixedArray(c), c == msgpcode.Array16, c == msgpcode.Array32:
		return r.array(depth + 1)
	case msgpcode.IsFixedNum(c), msgpcode.Uint8 <= c && c <= msgpcode.Int64:
		return r.int()
	}
	switch c {
	case msgpcode.Nil:
		r.src.pos++
		return nil
	case msgpcode.False, msgpcode.True:
		r.src.pos++
		return c == msgpcode.True
	case msgpcode.Double:
		return r.float()
	case msgpcode.Ext8:
		return r.typedNil()
	}
	r.fail(fmt.Errorf("unexpected type byte %#x", c))
	return nil
}

func (r *msgpackReader) object(depth int) map[string]any {
	if depth > maxDepth {
		r.fail(errTooDeep)
		return nil
	}
	n := r.mapLen()
	if r.err != nil {
		return nil
	}
	m := make(map[string]any, n)
	last := ""
	for i := range n {
		k := r.name()
		if r.err == nil && i > 0 && k <= last {
			r.fail(errUnsorted)
		}
		v := r.value(depth)
		if r.err != nil {
			return nil
		}
		m[k] = v
		last = k
	}
	return m
}

func (r *msgpackReader) array(depth int) []any {
	if depth > maxDepth {
		r.fail(errTooDeep)
		return nil
	}
	n := r.arrayLen()
	if r.err != nil {
		return nil
	}
	s := make([]any, n)
	for i := range s {
		if s[i] = r.value(depth); r.err != nil {
			return nil
		}
	}
	return s
}

func (r *msgpackReader) typedNil() any {
	id, n, err := r.dec.DecodeExtHeader()
	switch {
	case err != nil:
		r.fail(truncated(err))
	case id == extNilMap && n == 0:
		return map[string]any(nil)
	case id == extNilSlice && n == 0:
		return []any(nil)
	default:
		r.fail(fmt.Errorf("unknown extension %d", id))
	}
	return nil
}
