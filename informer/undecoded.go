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

// requester is a ListerWatcher that exposes its requests, such as the one of requests.ListWatch.
type requester interface {
	Request(o metav1.ListOptions) *rest.Request
}

type metadataLister interface {
	ListMetadata(ctx context.Context, o metav1.ListOptions) (*metav1.PartialObjectMetadataList, error)
}

// listed returns the ListerWatcher for the reflector. Its objects are undecoded if the informer's ListerWatcher exposes
// its requests, so that the informer can read the answers itself.
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

// accepting returns request with the Accept header of the chosen encoding; see Options.ServerVersion.
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

// decodes reports whether a handler or the mutation detector needs the objects of changes.
func (i *sharedInformer) decodes() bool { return i.hasHandlers() || detectsMutations }

// decodesAtOnce reports whether each received object must be decoded before it is stored: a handler needs it, or an
// undecodable object was found before. Then undecodable objects are left out, and readers find none.
func (i *sharedInformer) decodesAtOnce() bool { return i.decodes() || i.health.distrustsNow() }

// decode decodes the objects of a change. An undecodable old state becomes nil, like an unreadable one.
func decode(c *entry.Change) (err error) {
	if c.Old, err = entry.Decoded(c.Old); err != nil {
		c.Old = nil
	}
	if c.New, err = entry.Decoded(c.New); err != nil && c.Type == cache.Deleted {
		c.New, err = nil, nil
	}
	return err
}
