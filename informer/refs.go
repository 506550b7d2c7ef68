package informer

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/sharding"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/reflector"
	"github.com/larder-dev/larder/store"
)

// acceptMetadata asks for a list by metadata. Servers that can not send one send whole objects, which have the metadata too.
const acceptMetadata = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"

// ListRefs returns a function for Options.ListRefs: it lists what id says by metadata (PartialObjectMetadataList). client is any REST client of the
// cluster, such as clientset.CoreV1().RESTClient().
func ListRefs(client rest.Interface, id store.Identity) func(ctx context.Context, o metav1.ListOptions) (reflector.RefPage, error) {
	shards := id.Shards()
	return func(ctx context.Context, o metav1.ListOptions) (reflector.RefPage, error) {
		data, err := scoped(client, id, o).SetHeader("Accept", acceptMetadata).Do(ctx).Raw()
		if err != nil {
			return reflector.RefPage{}, err
		}
		// Not metav1.PartialObjectMetadataList: the annotations and managed fields of 500 objects would be decoded to be thrown away.
		var list struct {
			Metadata metav1.ListMeta `json:"metadata"`
			Items    []struct {
				Metadata struct {
					Name            string    `json:"name"`
					Namespace       string    `json:"namespace"`
					UID             types.UID `json:"uid"`
					ResourceVersion string    `json:"resourceVersion"`
				} `json:"metadata"`
			} `json:"items"`
		}
		if err := json.Unmarshal(data, &list); err != nil {
			return reflector.RefPage{}, fmt.Errorf("the server's list of %s by metadata is not what it should be: %w", id.Resource, err)
		}
		p := reflector.RefPage{ResourceVersion: list.Metadata.ResourceVersion, Continue: list.Metadata.Continue}
		for _, item := range list.Items {
			m := item.Metadata
			// A server that does not heed the selector sends the other shards too.
			obj := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: m.Namespace, UID: m.UID}}
			if ours, err := shards.Matches(obj); err == nil && !ours {
				continue
			}
			p.Refs = append(p.Refs, reflector.ObjectRef{
				Key: cache.NewObjectName(m.Namespace, m.Name).String(), UID: string(m.UID), ResourceVersion: m.ResourceVersion,
			})
		}
		return p, nil
	}
}

// listWhole is Options.ListRefs by whole objects, as lw lists them. Strays are left out, and what is of other shards.
func listWhole(lw cache.ListerWatcher, shards sharding.Selector, admit func(runtime.Object) error) func(ctx context.Context, o metav1.ListOptions) (reflector.RefPage, error) {
	from := cache.ToListerWatcherWithContext(lw)
	return func(ctx context.Context, o metav1.ListOptions) (p reflector.RefPage, err error) {
		list, err := from.ListWithContext(ctx, o)
		if err != nil {
			return p, err
		}
		m, err := meta.ListAccessor(list)
		if err != nil {
			return p, fmt.Errorf("the answer to a list request is no list: %w", err)
		}
		p.ResourceVersion, p.Continue = m.GetResourceVersion(), m.GetContinue()
		return p, meta.EachListItem(list, func(obj runtime.Object) error {
			acc, err := meta.Accessor(obj)
			if err != nil || admit(obj) != nil {
				return nil //nolint:nilerr // a stray: it is not stored either
			}
			if ours, err := shards.Matches(obj); ours || err != nil {
				p.Refs = append(p.Refs, refOf(acc))
			}
			return nil //nolint:nilerr // what has no metadata is no stray
		})
	}
}

func refOf(acc metav1.Object) reflector.ObjectRef {
	return reflector.ObjectRef{
		Key: cache.NewObjectName(acc.GetNamespace(), acc.GetName()).String(),
		UID: string(acc.GetUID()), ResourceVersion: acc.GetResourceVersion(),
	}
}
