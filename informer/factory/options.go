package factory

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/watchlist"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/informer/requests"
)

// Options are the options of the factories. Only Informer.Store (or InMemory) is required.
type Options struct {
	// Informer has the options that all informers share: the store, PersistSecrets, SyncPolicy, TransformVersion and so
	// on. Options that differ between informers must be empty: Identity, Resource, ResyncPeriod, Codec,
	// ObjectDescription, OpenAPIHash, ListMetadata. An index by namespace is added, as in client-go's factories.
	Informer informer.Options
	// Namespace is the namespace to list and watch. Default: all.
	Namespace string
	// TweakListOptions sets the selectors of every request; see the package's documentation.
	TweakListOptions func(*metav1.ListOptions)
	// Transform is applied to every object before it is stored. It needs Informer.TransformVersion, which must change
	// with it, unless no informer of the factory stores its objects in a file.
	Transform cache.TransformFunc
	// RESTClient is any REST client of the cluster. It reads the hash of the OpenAPI schema, and lists metadata. The
	// typed factory's default is the REST client of the clientset's discovery; the dynamic and the metadata factory
	// have no default. The metadata factory reads no hash, since metadata do not depend on the schema.
	RESTClient rest.Interface
	// Config is the configuration that the client was made from. With it the dynamic and the metadata factory make their
	// requests themselves, and read the answers without decoding them (informer.Options.ClientDecodes). RESTClient is made
	// from it too, if it is not set. Default: the client decodes. The typed factory ignores Config.
	Config *rest.Config

	// CustomResync has resync periods of single types, which replace the default. Only the typed factory accepts it.
	CustomResync map[metav1.Object]time.Duration
	// InformerName is passed to client-go's WithInformerName, for client-go's informers in the typed factory.
	InformerName *cache.InformerName
}

func (o Options) stock() []informers.SharedInformerOption {
	return []informers.SharedInformerOption{
		informers.WithNamespace(o.Namespace),
		informers.WithTweakListOptions(o.TweakListOptions),
		informers.WithTransform(o.Transform),
		informers.WithCustomResyncConfig(o.CustomResync),
		informers.WithInformerName(o.InformerName),
	}
}

// scope returns an identity with the namespace and the selectors of TweakListOptions. They hold for every request,
// since an informer's identity cannot change.
func (o Options) scope() entry.Identity {
	var tweaked metav1.ListOptions
	if o.TweakListOptions != nil {
		o.TweakListOptions(&tweaked)
	}
	return entry.Identity{
		Namespace:     o.Namespace,
		LabelSelector: tweaked.LabelSelector,
		FieldSelector: tweaked.FieldSelector,
		ShardSelector: tweaked.ShardSelector,
	}
}

func (o Options) validate() error {
	set := reflect.ValueOf(o.Informer)
	for _, name := range []string{
		"Identity", "Resource", "ResyncPeriod", "Codec", "ObjectDescription", "OpenAPIHash", "ListMetadata",
	} {
		if !set.FieldByName(name).IsZero() {
			return fmt.Errorf("Options.Informer.%s must be empty: it differs from one informer to the next; a factory has "+
				"Namespace, TweakListOptions, RESTClient and resync periods", name)
		}
	}
	return nil
}

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

// connect returns a REST client for Config, completed by configFor as client-go's client does; nil if there is no
// Config. If RESTClient is not set, connect sets it to that client.
func (o *Options) connect(configFor func(*rest.Config) *rest.Config) (rest.Interface, error) {
	if o.Config == nil {
		return nil, nil
	}
	made, err := rest.UnversionedRESTClientFor(configFor(o.Config))
	if err != nil {
		return nil, fmt.Errorf("Options.Config: %w", err)
	}
	if missing(o.RESTClient) {
		o.RESTClient = made
	}
	return made, nil
}

// reading returns a ListerWatcher whose requests have the selectors of id, and the field selector of the reflector's
// look-ups. If made is not nil, the informer sends the requests with it and reads the answers itself.
func reading[L runtime.Object](made rest.Interface, client requests.Client[L], id entry.Identity) cache.ListerWatcher {
	lw := requests.ClientListWatch(client, id)
	if made == nil {
		return lw
	}
	return requests.WithRequest(lw,
		func(o metav1.ListOptions) *rest.Request { return requests.Request(made, id, o) })
}

var namespaces = corev1.SchemeGroupVersion.WithResource("namespaces")

// clusterID returns a function for informer.Options.ClusterID that reads the UID of kube-system with get. It returns
// nil for client-go's fakes: they have no cluster, and tests compare their requests.
func clusterID(
	client any, get func(ctx context.Context, name string) (metav1.Object, error),
) func(context.Context) (string, error) {
	if watchlist.DoesClientNotSupportWatchListSemantics(client) {
		return nil
	}
	return requests.ClusterID(func(ctx context.Context) (string, error) {
		ns, err := get(ctx, metav1.NamespaceSystem)
		if err != nil {
			return "", err
		}
		return string(ns.GetUID()), nil
	})
}

// schemas returns the reader of schema hashes that all informers of a factory share; nil if there is no client.
func schemas(client rest.Interface) *requests.Schemas {
	if missing(client) {
		return nil
	}
	return requests.NewSchemas(client)
}

// missing reports whether there is no client. The fakes return nil pointers as REST clients.
func missing(client rest.Interface) bool {
	v := reflect.ValueOf(client)
	return !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil()
}
