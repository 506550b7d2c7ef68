package codec

import (
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/larder-dev/larder/entry"
)

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
