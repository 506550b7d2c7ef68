package requests

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/larder-dev/larder/entry"
)

// RESTListWatch is a ListerWatcher whose requests an informer sends itself, to read the answers without decoding them
// (informer.Options.ClientDecodes), and to list metadata (informer.Options.ListMetadata).
type RESTListWatch struct {
	*cache.ListWatch
	request func(o metav1.ListOptions) *rest.Request
}

// Request returns the request for a list or, with o.Watch, for a watch.
func (l *RESTListWatch) Request(o metav1.ListOptions) *rest.Request { return l.request(o) }

// WithRequest returns lw as a RESTListWatch with the given request function, such as one that calls Request.
func WithRequest(lw *cache.ListWatch, request func(o metav1.ListOptions) *rest.Request) *RESTListWatch {
	return &RESTListWatch{lw, request}
}

// ListWatch returns a ListerWatcher for informer.New that lists the resource, namespace and selectors of id. client is
// any REST client of the cluster whose scheme knows the objects, such as clientset.CoreV1().RESTClient() for the types
// of client-go. Selectors in a request's options are added to id's selectors, so that single objects can be looked up.
func ListWatch(client cache.Getter, id entry.Identity) *RESTListWatch {
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return Request(client, id, o).Do(ctx).Get()
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.Watch = true
			return Request(client, id, o).Watch(ctx)
		},
	}
	return WithRequest(lw, func(o metav1.ListOptions) *rest.Request { return Request(client, id, o) })
}

// Client is implemented by the client of a type in a generated clientset, by its fake, and by the client of a resource
// in client-go's dynamic and metadata clients. L is its list type.
type Client[L runtime.Object] interface {
	List(ctx context.Context, o metav1.ListOptions) (L, error)
	Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error)
}

// ClientListWatch returns a ListerWatcher for informer.New that uses client, such as clientset.CoreV1().Pods("shop").
// The same code then runs in unit tests with a fake clientset. client must be for the resource and the namespace of id;
// the selectors are taken from id.
func ClientListWatch[L runtime.Object](client Client[L], id entry.Identity) *cache.ListWatch {
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return client.List(ctx, selected(id, o))
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return client.Watch(ctx, selected(id, o))
		},
	}
}

func selected(id entry.Identity, o metav1.ListOptions) metav1.ListOptions {
	o.LabelSelector = both(id.LabelSelector, o.LabelSelector)
	o.FieldSelector = both(id.FieldSelector, o.FieldSelector)
	o.ShardSelector = id.Shards().String() // API servers require all digits of the shard's bounds
	return o
}

// Request returns a list request for the objects of id, or a watch request with o.Watch. o may add selectors.
func Request(client cache.Getter, id entry.Identity, o metav1.ListOptions) *rest.Request {
	o = selected(id, o)
	root := []string{"/apis", id.Group, id.Version}
	if id.Group == "" {
		root = []string{"/api", id.Version}
	}
	r := client.Get().AbsPath(root...).Namespace(id.Namespace).Resource(id.Resource).VersionedParams(&o,
		metav1.ParameterCodec)
	switch {
	case id.Representation != entry.Metadata:
	case o.Watch:
		r.SetHeader("Accept", accept(asMetadata))
	default:
		r.SetHeader("Accept", accept(asMetadataList))
	}
	return r
}

// both returns a selector of the objects that match both a and b. An empty selector matches everything.
func both(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "," + b
}

// ListMetadata returns a function for Options.ListMetadata. It lists the objects of id as metadata.
func ListMetadata(
	client cache.Getter, id entry.Identity,
) func(ctx context.Context, o metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
	return func(ctx context.Context, o metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
		return listMetadata(ctx, Request(client, id, o))
	}
}

// ListMetadata lists the objects of l as metadata. It is the default of Options.ListMetadata.
func (l *RESTListWatch) ListMetadata(
	ctx context.Context, o metav1.ListOptions,
) (*metav1.PartialObjectMetadataList, error) {
	return listMetadata(ctx, l.request(o))
}

// listMetadata sends the list request r for metadata. It decodes the answer itself, since the client's scheme may not
// know the type.
func listMetadata(ctx context.Context, r *rest.Request) (*metav1.PartialObjectMetadataList, error) {
	answer := r.SetHeader("Accept", accept(asMetadataList)).Do(ctx)
	if err := answer.Error(); err != nil { // Raw would not return the server's Status as an error
		return nil, err
	}
	raw, err := answer.Raw()
	if err != nil {
		return nil, err
	}
	list, err := decodeMetadata(ctx, raw)
	if err != nil {
		return nil, fmt.Errorf("the answer to a list by metadata, GET %s: %w", r.URL().Path, err)
	}
	return list, nil
}

// accept returns the Accept header for the given form. It prefers protobuf, which takes client and server half the time
// of JSON.
func accept(form string) string {
	return "application/vnd.kubernetes.protobuf" + form + ",application/json" + form
}

const (
	asMetadata     = ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
	asMetadataList = ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
)

// protobufPrefix begins an object in Kubernetes' protobuf encoding. A runtime.Unknown follows.
var protobufPrefix = []byte("k8s\x00")

func decodeMetadata(ctx context.Context, raw []byte) (*metav1.PartialObjectMetadataList, error) {
	list := &metav1.PartialObjectMetadataList{}
	data, isProtobuf := bytes.CutPrefix(raw, protobufPrefix)
	if !isProtobuf {
		if json.Unmarshal(raw, list) != nil || list.Items == nil {
			return looseMetadata(ctx, raw)
		}
		return list, nil
	}
	var envelope runtime.Unknown
	if err := envelope.Unmarshal(data); err != nil {
		return nil, err
	}
	return list, list.Unmarshal(envelope.Raw)
}

// looseMetadata reads a list in which some items do not match the type. It reads each item as far as possible (see
// entry.ReadMetadata) and drops items without any metadata. Callers need the list's resourceVersion and the set of
// listed objects. An answer without items is an error.
func looseMetadata(ctx context.Context, raw []byte) (*metav1.PartialObjectMetadataList, error) {
	var loose struct {
		metav1.TypeMeta `json:",inline"`
		metav1.ListMeta `json:"metadata"`
		Items           json.RawMessage `json:"items"`
	}
	var items []json.RawMessage
	err := json.Unmarshal(raw, &loose)
	if err == nil && loose.Items == nil {
		err = fmt.Errorf("it is no list, but of the kind %q", loose.Kind)
	}
	if err == nil {
		err = json.Unmarshal(loose.Items, &items)
	}
	if err != nil {
		return nil, err
	}
	list := &metav1.PartialObjectMetadataList{TypeMeta: loose.TypeMeta, ListMeta: loose.ListMeta}
	for n, item := range items {
		m, unfit, err := entry.ReadMetadata(item)
		switch {
		case err != nil:
			klog.FromContext(ctx).Error(err, "An item of a list by metadata is left out", "item", n)
			continue
		case len(unfit) > 0:
			klog.FromContext(ctx).V(2).Info("The server sends metadata that are none", "key",
				cache.MetaObjectToName(m).String(), "fields", unfit)
		}
		list.Items = append(list.Items, *m)
	}
	return list, nil
}
