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
