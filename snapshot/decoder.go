package snapshot

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/snapshot/internal/layout"
)

// Decoder decodes the records of one collection, whatever its representation, to unstructured objects. It is safe for
// concurrent use.
//
// Payloads in msgpack need no Go type: a map is an unstructured object, a bin value the JSON of a typed one. Payloads
// in protobuf need PartialObjectMetadata, or the type that client-go's scheme has for the collection's kind.
type Decoder struct {
	id      entry.Identity
	kind    string
	plain   codec.Codec
	typed   func() codec.Codec // of protobuf, or nil if there is none; nil if the type is not known
	newType func() runtime.Object
	view    codec.Codec
}

// NewDecoder returns the decoder of c.
func NewDecoder(c Collection) *Decoder {
	d := &Decoder{id: c.Identity, kind: c.Resource.Kind, plain: codec.Unstructured()}
	if c.Identity.Representation == entry.Metadata {
		d.typed, d.newType = metadataCodec, func() runtime.Object { return &metav1.PartialObjectMetadata{} }
	}
	gvk := c.Identity.GroupVersion().WithKind(c.Resource.Kind)
	if d.typed == nil && c.Resource.Kind != "" && scheme.Scheme.Recognizes(gvk) {
		d.typed, d.newType = func() codec.Codec { return typedCodec(gvk) }, func() runtime.Object { return newOf(gvk) }
	}
	d.view, _ = codec.View(c.Identity.Representation, d.codec()) // metadata has a codec
	return d
}

// Codec returns a codec that reads the collection's payloads as unstructured objects, as [codec.View] does.
func (d *Decoder) Codec() codec.Codec { return d.view }

// newOf returns a new object of a kind that client-go's scheme has.
func newOf(gvk schema.GroupVersionKind) runtime.Object {
	obj, err := scheme.Scheme.New(gvk)
	if err != nil { // it recognizes it
		return &unstructured.Unstructured{}
	}
	return obj
}

// typedCodecs caches the codec of each kind: to make one takes milliseconds.
var typedCodecs sync.Map // schema.GroupVersionKind → codec.Codec

// typedCodec returns the protobuf codec of a kind, or nil if it has none.
func typedCodec(gvk schema.GroupVersionKind) codec.Codec {
	if c, ok := typedCodecs.Load(gvk); ok {
		return c.(codec.Codec)
	}
	c, err := codec.ForProtobuf(newOf(gvk))
	if err != nil {
		return nil // a kind that no collection holds, such as a list
	}
	typedCodecs.Store(gvk, c)
	return c
}

var metadataCodec = sync.OnceValue(func() codec.Codec {
	c, err := codec.ForProtobuf(&metav1.PartialObjectMetadata{})
	if err != nil {
		return nil
	}
	return c
})

// Decode returns the object of a record. If it lacks apiVersion and kind, which typed clients leave empty, it gets
// those of the collection, if they are known. Decode fails with ErrUndecodable if the type is unknown, and with
// ErrDamaged if the payload does not fit its encoding.
func (d *Decoder) Decode(r entry.Entry) (*unstructured.Unstructured, error) {
	obj, err := codec.Decode(d.view, r.Encoding, r.Payload)
	switch {
	case errors.Is(err, entry.ErrIncompatible):
		return nil, d.undecodable(r)
	case err != nil:
		return nil, d.damaged(r, "malformed "+r.Encoding)
	}
	u := obj.(*unstructured.Unstructured)
	if u.Object == nil {
		return nil, d.damaged(r, "it is no object")
	}
	if u.GetKind() == "" && u.GetAPIVersion() == "" && d.kind != "" && d.id.Representation != entry.Metadata {
		u.SetGroupVersionKind(d.id.GroupVersion().WithKind(d.kind))
	}
	return u, nil
}

// decodeExactly is Decode without the added apiVersion and kind. Numbers of typed objects are json.Number, so that
// encode loses nothing.
func (d *Decoder) decodeExactly(r entry.Entry) (*unstructured.Unstructured, error) {
	text, u, err := d.open(r)
	if err != nil || u != nil {
		return u, err
	}
	var m map[string]any
	numbers := json.NewDecoder(bytes.NewReader(text))
	numbers.UseNumber()
	if err := numbers.Decode(&m); err != nil || m == nil {
		return nil, d.damaged(r, "malformed JSON")
	}
	if _, err := numbers.Token(); !errors.Is(err, io.EOF) { // what follows would go past a redaction
		return nil, d.damaged(r, "malformed JSON")
	}
	return &unstructured.Unstructured{Object: m}, nil
}

// open returns the JSON of a typed object, or an unstructured one.
func (d *Decoder) open(r entry.Entry) (text []byte, u *unstructured.Unstructured, err error) {
	switch r.Encoding {
	case layout.Msgpack:
		if text, ok := cutBin(r.Payload); ok {
			return text, nil, nil
		}
		obj, err := d.plain.Decode(r.Payload)
		if err != nil {
			return nil, nil, d.damaged(r, "malformed msgpack")
		}
		u = obj.(*unstructured.Unstructured)
		if u.Object == nil {
			return nil, nil, d.damaged(r, "it is no object")
		}
		return nil, u, nil
	case layout.Protobuf:
		obj, err := d.openProtobuf(r)
		if err != nil {
			return nil, nil, err
		}
		if text, err = json.Marshal(obj); err != nil {
			return nil, nil, d.damaged(r, "it cannot be written as JSON")
		}
		return text, nil, nil
	}
	return nil, nil, d.undecodable(r)
}

// openProtobuf returns a typed object.
func (d *Decoder) openProtobuf(r entry.Entry) (runtime.Object, error) {
	codec := d.codec()
	if codec == nil {
		return nil, d.undecodable(r)
	}
	obj, err := codec.Decode(r.Payload)
	if err != nil {
		return nil, d.damaged(r, "malformed protobuf")
	}
	return obj, nil
}

// metadata returns the metadata of a record's object, without converting objects in protobuf to unstructured ones. It
// fails as Decode does.
func (d *Decoder) metadata(r entry.Entry) (metav1.Object, error) {
	if r.Encoding != layout.Protobuf {
		return d.Decode(r)
	}
	obj, err := d.openProtobuf(r)
	if err != nil {
		return nil, err
	}
	return meta.Accessor(obj)
}

// encode replaces the payload of r by u, in the same encoding. u must be the result of decodeExactly(r), perhaps
// changed.
func (d *Decoder) encode(r *entry.Entry, u *unstructured.Unstructured) error {
	if _, isText := cutBin(r.Payload); r.Encoding == layout.Msgpack && !isText {
		data, err := d.plain.Append(nil, u)
		if err != nil {
			return fmt.Errorf("%s: encode %q: %w", d.id, r.Key, err)
		}
		r.Payload = data
		return nil
	}
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false) // as store writes it
	if err := e.Encode(u.Object); err != nil {
		return fmt.Errorf("%s: encode %q: it cannot be written as JSON", d.id, r.Key)
	}
	if r.Encoding == layout.Msgpack {
		r.Payload = appendBin(nil, bytes.TrimSuffix(text.Bytes(), []byte("\n")))
		return nil
	}
	obj := d.newType()
	if err := json.Unmarshal(text.Bytes(), obj); err != nil {
		return fmt.Errorf("%s: encode %q: it does not fit its type any more", d.id, r.Key)
	}
	data, err := d.codec().Append(nil, obj)
	if err != nil {
		return fmt.Errorf("%s: encode %q: %w", d.id, r.Key, err)
	}
	r.Payload = data
	return nil
}

// codec returns the protobuf codec of the collection's type, or nil.
func (d *Decoder) codec() codec.Codec {
	if d.typed == nil {
		return nil
	}
	return d.typed()
}

func (d *Decoder) undecodable(r entry.Entry) error {
	kind := d.kind
	if kind == "" {
		kind = "of unknown kind"
	}
	return fmt.Errorf("%s: %q (%s, in %s): %w", d.id, r.Key, kind, r.Encoding, ErrUndecodable)
}

func (d *Decoder) damaged(r entry.Entry, why string) error {
	return fmt.Errorf("%q cannot be decoded: %s: %w", r.Key, why, ErrDamaged)
}

// cutBin returns what is in a msgpack bin value, if data is one.
func cutBin(data []byte) ([]byte, bool) {
	if len(data) == 0 || data[0] < typeBin8 || data[0] > typeBin32 {
		return nil, false
	}
	width := 1 << (data[0] - typeBin8)
	if len(data) < 1+width {
		return nil, false
	}
	size := uint64(0)
	for _, b := range data[1 : 1+width] {
		size = size<<8 | uint64(b)
	}
	rest := data[1+width:]
	return rest, size == uint64(len(rest))
}

// appendBin appends b as a msgpack bin value, in the shortest form.
func appendBin(dst, b []byte) []byte {
	n := len(b)
	switch {
	case n < 1<<8:
		dst = append(dst, typeBin8, byte(n))
	case n < 1<<16:
		dst = append(dst, typeBin8+1, byte(n>>8), byte(n))
	default:
		dst = append(dst, typeBin32, byte(n>>24), byte(n>>16), byte(n>>8), byte(n))
	}
	return append(dst, b...)
}

// The type bytes of msgpack's bin values.
const (
	typeBin8  = 0xc4
	typeBin32 = 0xc6
)
