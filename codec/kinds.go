package codec

import (
	"fmt"
	"reflect"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/larder-dev/larder/entry"
)

// kinds has the codecs of the kinds of a scheme that have protobuf. It is safe for concurrent use.
type kinds struct {
	scheme *runtime.Scheme
	known  sync.Map // apiVersion and kind, a metav1.TypeMeta, to *protobufCodec, which is nil if the kind has none
}

// of returns the codec of a kind; nil if there is none.
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

// ofPayload returns the codec of a payload in protobuf, and the message in it; nil if there is none.
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

// toUnstructured returns a typed object as an unstructured one. payload is what it was decoded from.
func toUnstructured(obj runtime.Object, encoding string, payload []byte) (runtime.Object, error) {
	m, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		// The reason may quote what is in the object.
		return nil, fmt.Errorf("%T cannot be shown as an unstructured object: %w", obj, entry.ErrIncompatible)
	}
	if _, _, message, ok := cutMessage(payload); ok && encoding == EncodingProtobuf {
		presenceOf(reflect.TypeOf(obj).Elem()).prune(message, m)
	}
	return &unstructured.Unstructured{Object: m}, nil
}
