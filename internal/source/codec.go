package source

import (
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/larder-dev/larder/store"
)

// viewCodec returns the codec that reads a collection as unstructured objects. What a program has stored as
// Kubernetes' own Go types is in protobuf, which can not be read without the type; types
// that are not Kubernetes' own are left to the store.
func viewCodec(info store.Info) (store.Codec, error) {
	typed, err := typedCodec(info)
	if err != nil {
		return nil, err
	}
	return store.ViewCodec(info.Identity.Representation, typed)
}

// typedCodec returns the codec of one of Kubernetes' own Go types; nil if the collection holds none.
func typedCodec(info store.Info) (store.Codec, error) {
	r, _ := describe(info)
	gvk := info.Identity.GroupVersion().WithKind(r.Kind)
	if info.Identity.Representation != store.Typed || !scheme.Scheme.Recognizes(gvk) {
		return nil, nil
	}
	obj, err := scheme.Scheme.New(gvk)
	if err != nil {
		return nil, err
	}
	return store.CodecFor(obj)
}

// recordCodec reads the records of a collection as unstructured objects, as viewCodec does with those of a store.
type recordCodec struct {
	plain store.Codec
	// typed reads protobuf; nil if the type is not known.
	typed store.Codec
}

func newRecordCodec(info store.Info) (*recordCodec, error) {
	plain, err := store.ViewCodec(store.Unstructured, nil)
	if err != nil {
		return nil, err
	}
	c := &recordCodec{plain: plain}
	if info.Identity.Representation == store.Metadata {
		c.typed, err = store.ProtobufCodec(&metav1.PartialObjectMetadata{})
	} else {
		c.typed, err = typedCodec(info)
	}
	return c, err
}

// decode fails with store.ErrIncompatible if the type of the object is not known, and with store.ErrDamaged.
func (c *recordCodec) decode(rec store.Record) (*unstructured.Unstructured, error) {
	codec := c.plain
	if c.typed != nil && rec.Encoding == c.typed.Name() && rec.Encoding != c.plain.Name() {
		codec = c.typed
	}
	if codec.Name() != rec.Encoding {
		return nil, fmt.Errorf("object %q is in %s, of a type that is not known here: %w", rec.Key, rec.Encoding, store.ErrIncompatible)
	}
	obj, err := codec.Decode(rec.Payload)
	if err != nil {
		return nil, err
	}
	if u, ok := obj.(*unstructured.Unstructured); ok {
		return u, nil
	}
	m, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil { // the reason may quote what is in the object
		return nil, fmt.Errorf("%T can not be shown as an unstructured object: %w", obj, store.ErrIncompatible)
	}
	return &unstructured.Unstructured{Object: m}, nil
}

// undecodable says in a sentence why objects can not be shown, where the store's error speaks of codecs.
func undecodable(info store.Info, err error) error {
	if !errors.Is(err, store.ErrIncompatible) || info.Identity.Representation != store.Typed {
		return err
	}
	resource := info.Identity.GroupResource()
	r, _ := describe(info)
	message := fmt.Sprintf("larder can not decode the %s of a Go program's own type %s; the program that stored them can", resource, r.Kind)
	if r.Kind == "" {
		message = fmt.Sprintf("the store does not tell the kind of its %s, without which larder can not decode them; the program that stored them can", resource)
	}
	return &wireError{message: message, is: store.ErrIncompatible}
}
