package factory

import (
	"fmt"
	"maps"
	"reflect"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/informer/requests"
)

// Options are the options of the factories. Informer.Store (or InMemory) is required; the zero value of everything else
// works.
type Options struct {
	// Informer has the options that all informers share: the store, PersistSecrets, SyncPolicy, TransformVersion and so
	// on. Those that differ between informers must be empty: Identity, Resource, ResyncPeriod, Codec, ObjectDescription,
	// OpenAPIHash, Lookup, ListMetadata. An index by namespace is added, as by client-go's factories.
	Informer informer.Options
	// Namespace to list and watch. Default: all.
	Namespace string
	// TweakListOptions sets the selectors of every request; see the package's documentation.
	TweakListOptions func(*metav1.ListOptions)
	// Transform is applied to every object before it is stored; change Informer.TransformVersion with it.
	Transform cache.TransformFunc
	// RESTClient is any REST client of the cluster. It reads the hash of the OpenAPI schema, and lists by metadata.
	// Default: that of the typed client's discovery; the dynamic and the metadata client have none. The metadata factory
	// reads no hash, since metadata do not depend on the schema.
	RESTClient rest.Interface

	// CustomResync has resync periods of single types, in place of the default. Only the typed factory accepts it.
	CustomResync map[metav1.Object]time.Duration
	// InformerName is client-go's WithInformerName, for its informers in the typed factory.
	InformerName *cache.InformerName
}

// stock returns the options of client-go's typed factory.
func (o Options) stock() []informers.SharedInformerOption {
	return []informers.SharedInformerOption{
		informers.WithNamespace(o.Namespace),
		informers.WithTweakListOptions(o.TweakListOptions),
		informers.WithTransform(o.Transform),
		informers.WithCustomResyncConfig(o.CustomResync),
		informers.WithInformerName(o.InformerName),
	}
}

// validate returns ErrOptions if an option cannot hold for all informers of a factory on s.
func (o Options) validate(s scope) error {
	i := o.Informer
	for _, field := range []struct {
		name    string
		value   any
		instead string
	}{
		{"Identity", i.Identity, "; set Namespace and TweakListOptions"},
		{"Resource", i.Resource, ""},
		{"ResyncPeriod", i.ResyncPeriod, "; use the factory's resync periods"},
		{"Codec", &i.Codec, ""},
		{"ObjectDescription", i.ObjectDescription, ""},
		{"OpenAPIHash", i.OpenAPIHash, "; set RESTClient"},
		{"Lookup", i.Lookup, ""},
		{"ListMetadata", i.ListMetadata, "; set RESTClient"},
	} {
		if !reflect.Indirect(reflect.ValueOf(field.value)).IsZero() {
			return fmt.Errorf("%w: Options.Informer.%s must be empty: it differs from one informer to the next%s", ErrOptions,
				field.name, field.instead)
		}
	}
	if i.Store == nil && !i.InMemory {
		return fmt.Errorf("%w: there is no store to keep the objects in; set Options.Informer.Store or InMemory", ErrOptions)
	}
	if p := i.SyncPolicy; p != "" && p != informer.Resumed && p != informer.Disk {
		return fmt.Errorf("%w: Options.Informer.SyncPolicy %q is neither Resumed nor Disk", ErrOptions, p)
	}
	// The resource does not matter to the selectors.
	if _, err := s.identity(namespaces).Canonical(); err != nil {
		return fmt.Errorf("%w: %w", ErrOptions, err)
	}
	return nil
}

// validateUntyped is validate for the dynamic and metadata factories: it also refuses options by Go type.
func (o Options) validateUntyped(s scope) error {
	if len(o.CustomResync) > 0 || o.InformerName != nil {
		return fmt.Errorf("%w: Options.CustomResync and InformerName are for the typed factory only", ErrOptions)
	}
	return o.validate(s)
}

// namespaceIndexVersion is the version of client-go's namespace index function. It stays the same as long as the
// function does, so that a new build of the program trusts the stored index.
const namespaceIndexVersion = "client-go"

// newInformer makes one informer. each has the options that only this informer has.
func (o Options) newInformer(
	lw cache.ListerWatcher, example runtime.Object, each informer.Options,
) (*informer.Informer, error) {
	io := o.Informer
	io.Identity, io.Resource, io.ResyncPeriod = each.Identity, each.Resource, each.ResyncPeriod
	io.ObjectDescription, io.OpenAPIHash = each.ObjectDescription, each.OpenAPIHash
	if io.ClusterID == nil {
		io.ClusterID = each.ClusterID
	}
	if !missing(o.RESTClient) {
		io.ListMetadata = requests.ListMetadata(o.RESTClient, each.Identity)
	}
	if io.Indexers[cache.NamespaceIndex] == nil {
		io.Indexers, io.IndexVersions = maps.Clone(io.Indexers), maps.Clone(io.IndexVersions)
		if io.Indexers == nil {
			io.Indexers = cache.Indexers{}
		}
		if io.IndexVersions == nil {
			io.IndexVersions = map[string]string{}
		}
		io.Indexers[cache.NamespaceIndex] = cache.MetaNamespaceIndexFunc
		io.IndexVersions[cache.NamespaceIndex] = namespaceIndexVersion
	}
	return informer.New(lw, example, io)
}
