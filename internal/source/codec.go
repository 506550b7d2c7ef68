package source

import (
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/larder-dev/larder/store"
)

// viewCodec returns the codec that reads a collection as unstructured objects. What a program has stored as
// Kubernetes' own Go types is in protobuf, which can not be read without the type; types
// that are not Kubernetes' own are left to the store.
func viewCodec(info store.Info) (store.Codec, error) {
	gvk := info.Identity.GroupVersion().WithKind(info.Resource.Kind)
	if info.Identity.Representation != store.Typed || !scheme.Scheme.Recognizes(gvk) {
		return store.ViewCodec(info.Identity.Representation, nil)
	}
	obj, err := scheme.Scheme.New(gvk)
	if err != nil {
		return nil, err
	}
	typed, err := store.CodecFor(obj)
	if err != nil {
		return nil, err
	}
	return store.ViewCodec(store.Typed, typed)
}
