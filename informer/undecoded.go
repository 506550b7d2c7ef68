package informer

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer/internal/attributes"
	"github.com/larder-dev/larder/reflector/wire"
)

// requester is a ListerWatcher that tells which requests it makes, such as that of requests.ListWatch.
type requester interface {
	Request(o metav1.ListOptions) *rest.Request
}

// metadataLister is a ListerWatcher whose list requests can be made for metadata, such as that of requests.ListWatch.
type metadataLister interface {
	ListMetadata(ctx context.Context, o metav1.ListOptions) (*metav1.PartialObjectMetadataList, error)
}

// listed returns what the reflector lists and watches, and whether that has undecoded objects: if the ListerWatcher
// tells its requests, the answers are read without it.
func (i *sharedInformer) listed() (lw cache.ListerWatcherWithContext, undecoded bool) {
	lw = cache.ToListerWatcherWithContext(i.lw)
	r, ok := i.lw.(requester)
	if !ok || i.o.ClientDecodes {
		return lw, false
	}
	sent := codec.NewSent(i.o.Codec, i.example, i.Identity().LabelSelector != "")
	if sent == nil {
		return lw, false
	}
	return wire.New(i.accepting(r.Request, sent), sent), true
}

// accepting returns requests that ask for the chosen encoding; see Options.ServerVersion.
func (i *sharedInformer) accepting(request wire.Requests, sent *codec.Sent) wire.Requests {
	if i.o.ServerVersion == nil || i.o.Identity.Representation != entry.Unstructured {
		return request
	}
	version := i.o.ServerVersion
	if !sent.ReadsProtobuf(i.example) {
		version = nil
	}
	i.encoding = attributes.NewEncoding(version)
	return func(o metav1.ListOptions) *rest.Request { return request(o).SetHeader("Accept", i.encoding.Accept()) }
}

// decodes reports whether somebody waits for the objects of changes.
func (i *sharedInformer) decodes() bool { return i.hasHandlers() || detectsMutations }

// decodesAtOnce is store.CollectionOptions.Decodes. Once an object could not be decoded, each is decoded as it comes
// in: so the ones that cannot be are left out then, and readers meet no others.
func (i *sharedInformer) decodesAtOnce() bool { return i.decodes() || i.health.distrustsNow() }

// decode decodes the objects of a change. An old state that cannot be decoded is left out, as one that cannot be read.
func decode(c *entry.Change) (err error) {
	if c.Old, err = entry.Decoded(c.Old); err != nil {
		c.Old = nil
	}
	if c.New, err = entry.Decoded(c.New); err != nil && c.Type == cache.Deleted {
		c.New, err = nil, nil
	}
	return err
}
