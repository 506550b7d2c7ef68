package codec

import (
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/larder-dev/larder/entry"
)

var errViewReadOnly = errors.New("a view's codec only reads")

// viewCodec reads the payloads of any representation as unstructured objects.
type viewCodec struct {
	unstructuredCodec
	// typed decodes protobuf payloads; nil if there are none.
	typed Codec
}

// View returns a codec that decodes a collection's payloads to
// *unstructured.Unstructured, whatever its representation. typed is the codec
// that the collection was written with; it is needed for typed collections in
// protobuf only, and may be nil for all others.
//
// An object without apiVersion and kind, which typed clients leave empty, is decoded without them. The codec's Append
// fails.
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

// Decode decodes a msgpack payload; decodeEncoding also decodes protobuf.
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
	obj, err := Decode(c.typed, encoding, data)
	if err != nil {
		return nil, err
	}
	m, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		// The reason may quote what is in the object.
		return nil, fmt.Errorf("%T cannot be shown as an unstructured object: %w", obj, entry.ErrIncompatible)
	}
	return &unstructured.Unstructured{Object: m}, nil
}
