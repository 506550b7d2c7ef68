package snapshot

import (
	"encoding/json"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/msgpack"
)

// Decoder decodes the records of one collection to unstructured objects. It is safe for concurrent use.
//
// Msgpack payloads need no Go type: a map is an unstructured object, and a bin value is the JSON of a typed object.
// Protobuf payloads need PartialObjectMetadata, or the Go type that client-go's scheme registers for the kind.
type Decoder struct {
	id   entry.Identity
	kind string
	// example is an object of the Go type of protobuf payloads, and typed is its codec. Both are nil for an unknown type.
	example runtime.Object
	typed   codec.Codec
	view    codec.Codec
}

// NewDecoder returns the decoder of collection c.
func NewDecoder(c Collection) *Decoder {
	d := &Decoder{id: c.Identity, kind: c.Resource.Kind}
	gvk := c.Identity.GroupVersion().WithKind(c.Resource.Kind)
	if c.Identity.Representation == entry.Metadata {
		d.example = &metav1.PartialObjectMetadata{}
	} else if obj, err := scheme.Scheme.New(gvk); err == nil {
		d.example = obj
	}
	if typed, err := codec.For(d.example); err == nil {
		d.typed = typed
	}
	d.view, _ = codec.View(c.Identity.Representation, d.typed) // cannot fail: PartialObjectMetadata has a codec
	return d
}

// Codec returns a codec that decodes the collection's payloads to unstructured objects; see [codec.View].
func (d *Decoder) Codec() codec.Codec { return d.view }

// Decode returns the object of a record. Typed clients leave apiVersion and kind empty; Decode then sets the
// collection's, if known. It fails with ErrUndecodable if the type is unknown, and with ErrDamaged if the payload does
// not fit its encoding.
func (d *Decoder) Decode(r entry.Entry) (*unstructured.Unstructured, error) {
	u, err := d.decodeExactly(r)
	if err != nil {
		return nil, err
	}
	if u.GetKind() == "" && u.GetAPIVersion() == "" && d.kind != "" && d.id.Representation != entry.Metadata {
		u.SetGroupVersionKind(d.id.GroupVersion().WithKind(d.kind))
	}
	return u, nil
}

// decodeExactly is Decode, but does not set apiVersion and kind.
func (d *Decoder) decodeExactly(r entry.Entry) (*unstructured.Unstructured, error) {
	obj, err := codec.Decode(d.view, r.Encoding, r.Payload)
	switch {
	case errors.Is(err, entry.ErrIncompatible):
		return nil, d.undecodable(r)
	case err != nil:
		return nil, fmt.Errorf("%q cannot be decoded: malformed %s: %w", r.Key, r.Encoding, ErrDamaged)
	}
	u := obj.(*unstructured.Unstructured)
	if u.Object == nil {
		return nil, fmt.Errorf("%q cannot be decoded: it is no object: %w", r.Key, ErrDamaged)
	}
	return u, nil
}

// encode replaces the payload of r with the object u, in the payload's encoding. u comes from decodeExactly.
func (d *Decoder) encode(r *entry.Entry, u *unstructured.Unstructured) (err error) {
	switch {
	case r.Encoding == codec.EncodingProtobuf:
		obj := d.example.DeepCopyObject()
		// The converter's error may quote the object, so it is not returned.
		if runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, obj) != nil {
			return fmt.Errorf("%s: encode %q: it does not fit its type any more", d.id, r.Key)
		}
		r.Payload, err = d.typed.Append(nil, obj)
	case msgpack.IsBin(r.Payload[0]):
		var text []byte
		if text, err = json.Marshal(u.Object); err == nil {
			r.Payload = msgpack.AppendBin(nil, text)
		}
	default:
		r.Payload, err = codec.Unstructured().Append(nil, u)
	}
	if err != nil {
		return fmt.Errorf("%s: encode %q: %w", d.id, r.Key, err)
	}
	return nil
}

func (d *Decoder) undecodable(r entry.Entry) error {
	kind := d.kind
	if kind == "" {
		kind = "of unknown kind"
	}
	return fmt.Errorf("%s: %q (%s, in %s): %w", d.id, r.Key, kind, r.Encoding, ErrUndecodable)
}
