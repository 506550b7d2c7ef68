package codec

import (
	"fmt"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/larder-dev/larder/entry"
)

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
