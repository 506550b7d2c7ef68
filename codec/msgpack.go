package codec

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/msgpack"
)

// msgpackVersion is part of the fingerprint. Raise it when the form of msgpack payloads changes.
const msgpackVersion = 1

// msgpackCodec encodes typed objects without generated protobuf. The payload is one msgpack bin: the object's JSON.
//
// The payload is not a msgpack map, because only the type's own JSON methods convert the object without loss.
// runtime.DefaultUnstructuredConverter reorders the fields of a managedFields entry and of a RawExtension, which
// apiequality.Semantic distinguishes. It also makes floats of large numbers, panics on unexported fields and turns nil
// embedded pointers into empty ones.
type msgpackCodec struct {
	typ         reflect.Type
	fingerprint string
	// protobuf returns the codec for the type's protobuf messages, or nil for a type without generated protobuf.
	protobuf func() *protobufCodec
}

func newMsgpackCodec(t reflect.Type) *msgpackCodec {
	return &msgpackCodec{
		typ: t, fingerprint: typeFingerprint(EncodingMsgpack, msgpackVersion, t),
		protobuf: sync.OnceValue(func() *protobufCodec {
			if !generatesProtobuf(t) {
				return nil
			}
			return newProtobufCodec(t)
		}),
	}
}

func (c *msgpackCodec) Name() string                   { return EncodingMsgpack }
func (c *msgpackCodec) Fingerprint() string            { return c.fingerprint }
func (c *msgpackCodec) Check(obj runtime.Object) error { return checkType(obj, c.typ) }

func (c *msgpackCodec) Append(dst []byte, obj runtime.Object) ([]byte, error) {
	if err := c.Check(obj); err != nil {
		return dst, err
	}
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false) // Escaping would change raw JSON in the object.
	if err := enc.Encode(obj); err != nil {
		// The error of the JSON encoder is not wrapped, because it may quote the object.
		return dst, fmt.Errorf("encode %T: it cannot be marshalled as JSON", obj)
	}
	return msgpack.AppendBin(dst, bytes.TrimSuffix(text.Bytes(), []byte("\n"))), nil
}

func (c *msgpackCodec) Decode(data []byte) (runtime.Object, error) {
	return decodeTyped(c.typ, data)
}

// decodeEncoding also decodes protobuf, which an earlier build wrote if the type had generated protobuf then.
func (c *msgpackCodec) decodeEncoding(encoding string, data []byte) (runtime.Object, error) {
	if typed := c.protobuf(); typed != nil && encoding == EncodingProtobuf {
		return typed.Decode(data)
	}
	return nil, unknownEncoding(encoding, c)
}

func decodeTyped(t reflect.Type, data []byte) (runtime.Object, error) {
	text, err := cutJSON(data)
	if err != nil {
		return nil, fmt.Errorf("decode *%s: %w: %w", t, err, entry.ErrDamaged)
	}
	obj, err := unmarshalJSON(t, text)
	switch {
	case err == nil:
		return obj, nil
	case !json.Valid(text):
		return nil, fmt.Errorf("decode *%s: malformed JSON: %w", t, entry.ErrDamaged)
	}
	return nil, fmt.Errorf("decode *%s: %w: %w", t, err, entry.ErrIncompatible)
}

// unmarshalJSON returns a new object of type t. The error names the failed field, and quotes nothing of the text.
func unmarshalJSON(t reflect.Type, text []byte) (runtime.Object, error) {
	decode := func(text []byte) (obj any, err error) {
		obj = reflect.New(t).Interface()
		return obj, unmarshal(t, func() error { return utiljson.Unmarshal(text, obj) })
	}
	obj, err := decode(text)
	if err == nil {
		return obj.(runtime.Object), nil
	}
	return nil, atJSON(withoutContent(err), text, func(text []byte) bool {
		_, err := decode(text)
		return err != nil
	})
}

// decodeTypedLoose decodes a payload of msgpackCodec as an unstructured object.
func decodeTypedLoose(data []byte) (runtime.Object, error) {
	text, err := cutJSON(data)
	if err != nil {
		return nil, fmt.Errorf("decode typed object: %w: %w", err, entry.ErrDamaged)
	}
	var m map[string]any
	if err := utiljson.Unmarshal(text, &m); err != nil {
		return nil, fmt.Errorf("decode typed object: malformed JSON: %w", entry.ErrDamaged)
	}
	return &unstructured.Unstructured{Object: m}, nil
}

// cutJSON returns the JSON in a payload of msgpackCodec, as a slice of data.
func cutJSON(data []byte) ([]byte, error) {
	r := msgpack.NewReader(data)
	text := r.Bin()
	r.End()
	return text, r.Err
}

// isTypedPayload reports whether a msgpack payload is one bin (of msgpackCodec), not a map (of unstructuredCodec).
func isTypedPayload(data []byte) bool {
	return len(data) > 0 && msgpack.IsBin(data[0])
}
