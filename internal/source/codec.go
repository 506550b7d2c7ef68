package source

import (
	"errors"
	"fmt"

	"k8s.io/client-go/kubernetes/scheme"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/snapshot"
	"github.com/larder-dev/larder/store"
)

// viewCodec returns the codec that reads a collection as unstructured objects. What a program has stored as
// Kubernetes' own Go types is in protobuf, which cannot be read without the type; types
// that are not Kubernetes' own are left to the store.
func viewCodec(info store.Info) (codec.Codec, error) {
	r, _ := describe(info)
	gvk := info.Identity.GroupVersion().WithKind(r.Kind)
	if info.Identity.Representation != entry.Typed || !scheme.Scheme.Recognizes(gvk) {
		return codec.View(info.Identity.Representation, nil)
	}
	obj, err := scheme.Scheme.New(gvk)
	if err != nil {
		return nil, err
	}
	typed, err := codec.For(obj)
	if err != nil {
		return nil, err
	}
	return codec.View(entry.Typed, typed)
}

// undecodable says in a sentence why objects cannot be shown, where the error of a store or snapshot speaks of codecs.
func undecodable(info store.Info, err error) error {
	if !errors.Is(err, entry.ErrIncompatible) && !errors.Is(err, snapshot.ErrUndecodable) ||
		info.Identity.Representation != entry.Typed {
		return err
	}
	resource := info.Identity.GroupResource()
	r, _ := describe(info)
	message := fmt.Sprintf("larder cannot decode the %s of a Go program's own type %s; the program that stored them can",
		resource, r.Kind)
	if r.Kind == "" {
		message = fmt.Sprintf(
			"the store does not tell the kind of its %s, without which larder cannot decode them; the program that stored "+
				"them can", resource)
	}
	return &wireError{message: message, is: entry.ErrIncompatible}
}
