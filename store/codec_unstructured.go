package store

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/larder-dev/larder/entry"
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
	texts   textTables
	writers sync.Pool // of *valueWriter: their stacks grow once
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
	r := valueReader{newMsgpackReader(data), &c.texts}
	v := r.value(0)
	r.end()
	m, ok := v.(map[string]any)
	if r.err == nil && !ok {
		r.fail(fmt.Errorf("a %T where the object should be", v))
	}
	if r.err != nil {
		return nil, fmt.Errorf("decode unstructured object: %w: %w", r.err, entry.ErrDamaged)
	}
	return &unstructured.Unstructured{Object: m}, nil
}

// valueWriter appends the values of unstructured objects. After an error it must not be used again.
type valueWriter struct {
	depth int
	// fields is a stack of the sorted fields of the maps that are open.
	fields []valueField
}

type valueField struct {
	name  string
	value any
}

func (w *valueWriter) value(dst []byte, v any) ([]byte, error) {
	switch v := v.(type) {
	case nil:
		return append(dst, typeNil), nil
	case string:
		return appendText(dst, v), nil
	case bool:
		return appendBool(dst, v), nil
	case int64:
		return appendInt(dst, v), nil
	case float64:
		return appendFloat(dst, v), nil
	case map[string]any:
		return w.object(dst, v)
	case []any:
		return w.array(dst, v)
	}
	return dst, fmt.Errorf("%T: %w", v, errNotJSON)
}

func (w *valueWriter) object(dst []byte, m map[string]any) ([]byte, error) {
	if m == nil {
		return appendExt(dst, extNilMap), nil
	}
	if w.depth++; w.depth > maxDepth {
		return dst, errTooDeep
	}
	dst = appendMapLen(dst, len(m))
	start := len(w.fields)
	for name, value := range m {
		w.fields = append(w.fields, valueField{name, value})
	}
	end := len(w.fields)
	slices.SortFunc(w.fields[start:end], func(a, b valueField) int { return strings.Compare(a.name, b.name) })
	for i := start; i < end; i++ {
		f := w.fields[i]
		var err error
		if dst, err = w.value(appendText(dst, f.name), f.value); err != nil {
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
		return appendExt(dst, extNilSlice), nil
	}
	if w.depth++; w.depth > maxDepth {
		return dst, errTooDeep
	}
	dst = appendArrayLen(dst, len(s))
	for i, v := range s {
		var err error
		if dst, err = w.value(dst, v); err != nil {
			return dst, atField(err, fmt.Sprintf("[%d]", i))
		}
	}
	w.depth--
	return dst, nil
}

// valueReader reads the values of unstructured objects. Strings that come again and again are allocated once.
type valueReader struct {
	msgpackReader
	texts *textTables
}

// value reads what valueWriter.value wrote.
func (r *valueReader) value(depth int) any {
	c, ok := r.peek()
	switch {
	case !ok:
		return nil
	case c <= maxPositive || c >= typeNegative:
		return r.int(c)
	case c < typeFixArray:
		return r.object(depth + 1)
	case c < typeFixText:
		return r.array(depth + 1)
	case c < typeNil:
		return r.texts.values.value(r.bytes())
	}
	switch c {
	case typeNil:
		r.pos++
		return nil
	case typeFalse, typeTrue:
		r.pos++
		return c == typeTrue
	case typeText8, typeText8 + 1, typeText32:
		return r.str()
	case typeUint8, typeUint8 + 1, typeUint8 + 2, typeUint64, typeInt8, typeInt8 + 1, typeInt8 + 2, typeInt64:
		return r.int(c)
	case typeFloat64:
		return r.float()
	case typeMap16, typeMap32:
		return r.object(depth + 1)
	case typeArray16, typeArray32:
		return r.array(depth + 1)
	case typeExt8:
		return r.typedNil()
	}
	r.unexpected("a value")
	return nil
}

func (r *valueReader) object(depth int) map[string]any {
	if depth > maxDepth {
		r.fail(errTooDeep)
		return nil
	}
	n := r.mapLen()
	m := make(map[string]any, n)
	last := ""
	for i := range n {
		k := r.texts.names.name(r.bytes())
		if i > 0 && k <= last {
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

func (r *valueReader) array(depth int) []any {
	if depth > maxDepth {
		r.fail(errTooDeep)
		return nil
	}
	s := make([]any, r.arrayLen())
	for i := range s {
		if s[i] = r.value(depth); r.err != nil {
			return nil
		}
	}
	return s
}

func (r *valueReader) typedNil() any {
	switch id := r.ext(); id {
	case extNilMap:
		return map[string]any(nil)
	case extNilSlice:
		return []any(nil)
	default:
		r.fail(fmt.Errorf("unknown extension %d", id))
	}
	return nil
}
