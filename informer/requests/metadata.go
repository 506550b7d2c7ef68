package requests

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/larder-dev/larder/entry"
)

// ListMetadata returns a function for Options.ListMetadata that lists metadata of the objects that ListWatch lists.
func ListMetadata(
	client cache.Getter, id entry.Identity,
) func(ctx context.Context, o metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
	return func(ctx context.Context, o metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
		return listMetadata(ctx, Request(client, id, o))
	}
}

// ListMetadata makes the request for a list, but for metadata. It is the default of Options.ListMetadata.
func (l *RESTListWatch) ListMetadata(
	ctx context.Context, o metav1.ListOptions,
) (*metav1.PartialObjectMetadataList, error) {
	return listMetadata(ctx, l.request(o))
}

// listMetadata makes a request for a list, but for metadata. A client's scheme need not know the type, so it does not
// decode.
func listMetadata(ctx context.Context, r *rest.Request) (*metav1.PartialObjectMetadataList, error) {
	answer := r.SetHeader("Accept", accept(asMetadataList)).Do(ctx)
	if err := answer.Error(); err != nil { // which reads the server's status, as Raw does not
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

// accept requests an answer in that form, in protobuf if the server supports it, which takes both sides half the time
// of JSON.
func accept(form string) string {
	return "application/vnd.kubernetes.protobuf" + form + ",application/json" + form
}

const (
	asMetadata     = ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
	asMetadataList = ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
)

// protobufPrefix is the start of an object in protobuf as Kubernetes sends it. An envelope with its type follows.
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

// looseMetadata returns a list whose items do not all fit: of each, as much as fits (see entry.ReadMetadata), without
// those that have no metadata at all. Callers need the list's resourceVersion, and which objects are listed. An answer
// without items is an error.
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
