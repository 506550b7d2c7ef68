package factory

import (
	"fmt"
	"reflect"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer"
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
