package factory

import (
	"context"
	"maps"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/informer/requests"
)

// namespaceIndexVersion is the version of client-go's namespace index function. It changes only with that function, so
// that a new build of the program trusts the stored index.
const namespaceIndexVersion = "client-go"

type maker struct {
	o Options
	// scope has the common fields of all collections' identities: all except the resource and the representation, which
	// is derived from the example object.
	scope     entry.Identity
	clusterID func(context.Context) (string, error) // clusterID is nil if the client has no cluster
	schemas   *requests.Schemas                     // schemas is nil without a REST client or a schema
}

func (m maker) identity(gvr schema.GroupVersionResource) entry.Identity {
	id := m.scope
	id.GroupVersionResource = gvr
	return id
}

func (m maker) options(id entry.Identity) informer.Options {
	o := m.o.Informer
	o.Identity = id
	if o.ClusterID == nil {
		o.ClusterID = m.clusterID
	}
	if m.schemas != nil {
		o.OpenAPIHash = m.schemas.Hash(id.GroupVersion())
	}
	if !missing(m.o.RESTClient) {
		o.ListMetadata = requests.ListMetadata(m.o.RESTClient, id)
	}
	if o.Indexers[cache.NamespaceIndex] == nil {
		indexers := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
		versions := map[string]string{cache.NamespaceIndex: namespaceIndexVersion}
		maps.Copy(indexers, o.Indexers)
		maps.Copy(versions, o.IndexVersions)
		o.Indexers, o.IndexVersions = indexers, versions
	}
	return o
}
