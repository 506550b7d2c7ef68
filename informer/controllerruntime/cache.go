package controllerruntime

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"path"
	"reflect"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/informer/mapper"
	"github.com/larder-dev/larder/informer/requests"
	"github.com/larder-dev/larder/store"
)

// NewCache returns a function for the field NewCache of a manager's or a cluster's options. It works like cache.New,
// but the informers are Larder's. template has the options that all informers share; the package's documentation lists
// the fields that may be set.
//
// The function fails with ErrOptions if template sets a field that the cache derives itself, if neither Store nor
// InMemory is set, if there is a transform and no TransformVersion, or if cache.Options.NewInformer is set. It also
// returns the errors of cache.New. The store must stay open until the manager has stopped.
func NewCache(template informer.Options) cache.NewCacheFunc {
	return func(config *rest.Config, opts cache.Options) (cache.Cache, error) {
		if err := checkTemplate(template); err != nil {
			return nil, err
		}
		if opts.NewInformer != nil {
			return nil, fmt.Errorf("%w: cache.Options.NewInformer must not be set, it is how NewCache makes its informers",
				ErrOptions)
		}
		if err := checkTransforms(template, opts); err != nil {
			return nil, err
		}
		config, opts, a, err := adapt(config, opts, template)
		if err != nil {
			return nil, err
		}
		opts.NewInformer = a.newInformer
		made, err := cache.New(config, opts)
		if err != nil {
			return nil, err
		}
		ours, _ := opts.Mapper.(*mapper.Mapper)
		return madeCache{made, a, cmp.Or(opts.Scheme, scheme.Scheme), ours}, nil
	}
}

func checkTemplate(t informer.Options) error {
	resource := t.Resource
	for _, f := range []struct {
		set         bool
		name, offer string
	}{
		{t.Identity != entry.Identity{}, "Identity", "it is derived from the request that each informer would send"},
		{resource.Kind != "" || resource.Singular != "" || resource.Namespaced || len(resource.ShortNames) > 0, "Resource",
			"it is derived from the type of the objects"},
		{t.Codec != nil, "Codec", "it depends on the type of the objects"},
		{t.ListMetadata != nil, "ListMetadata", "it is derived from the request that each informer would send"},
		{t.ResyncPeriod != 0, "ResyncPeriod", "set cache.Options.SyncPeriod"},
		{len(t.Indexers) > 0, "Indexers", "call IndexField of the cache"},
		{t.ObjectDescription != "", "ObjectDescription", "it is derived from the type of the objects"},
	} {
		if f.set {
			return fmt.Errorf("%w: informer.Options.%s must not be set: %s", ErrOptions, f.name, f.offer)
		}
	}
	if t.Store == nil && !t.InMemory {
		return fmt.Errorf("%w: informer.Options.Store is required: open one with store.Open", ErrOptions)
	}
	return nil
}

// checkTransforms ignores Secrets, which may be in memory only: their informer checks the transform.
func checkTransforms(t informer.Options, opts cache.Options) error {
	if t.InMemory || t.TransformVersion != "" {
		return nil
	}
	set := opts.DefaultTransform != nil
	for _, c := range opts.DefaultNamespaces {
		set = set || c.Transform != nil
	}
	for obj, by := range opts.ByObject {
		if _, secret := obj.(*corev1.Secret); secret {
			continue
		}
		set = set || by.Transform != nil
		for _, c := range by.Namespaces {
			set = set || c.Transform != nil
		}
	}
	if set {
		return fmt.Errorf("%w: %w", ErrOptions, informer.ErrTransformVersion)
	}
	return nil
}

// adapter makes Larder's informers for one cache of controller-runtime.
type adapter struct {
	template informer.Options
	base     string         // base is the path prefix of the API server's URL, without a trailing slash
	client   rest.Interface // client has no group-version; it reads the cluster's id, schemas and metadata
	schemas  *requests.Schemas
	// clusterID is the Options.ClusterID of the informers if the template has none.
	clusterID func(ctx context.Context) (string, error)

	mu sync.Mutex
	// made has the newest informer of each stored collection, by Identity.ID. informers has the newest informer of each
	// collection, including refused informers. mu guards made and informers.
	made      map[string]*informer.Informer
	informers map[kind][]toolscache.SharedIndexInformer
}

// adapt returns the adapter, and copies of config and opts that have the defaults of cache.New and an HTTP client whose
// transport can capture requests instead of sending them.
func adapt(
	config *rest.Config, opts cache.Options, template informer.Options,
) (*rest.Config, cache.Options, *adapter, error) {
	if config == nil {
		return nil, opts, nil, errors.New("must specify Config")
	}
	config = rest.CopyConfig(config)
	if config.UserAgent == "" {
		config.UserAgent = rest.DefaultKubernetesUserAgent()
	}
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, opts, nil, fmt.Errorf("the API server's address: %w", err)
	}
	if opts.HTTPClient, err = clientFor(config, opts.HTTPClient); err != nil {
		return nil, opts, nil, err
	}
	if config.RateLimiter != nil {
		config.RateLimiter = limiter{config.RateLimiter}
	}
	if opts.Mapper == nil {
		if opts.Mapper, err = mapperFor(template)(config, opts.HTTPClient); err != nil {
			return nil, opts, nil, fmt.Errorf("could not create RESTMapper from config: %w", err)
		}
	}
	unversioned := rest.CopyConfig(config)
	unversioned.GroupVersion, unversioned.APIPath = nil, ""
	unversioned.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	client, err := rest.UnversionedRESTClientForConfigAndClient(unversioned, opts.HTTPClient)
	if err != nil {
		return nil, opts, nil, fmt.Errorf("could not create a REST client from config: %w", err)
	}
	return config, opts, &adapter{
		template: template, base: strings.TrimSuffix(path.Clean("/"+base.Path), "/"), client: client,
		schemas: requests.NewSchemas(client), clusterID: requests.KubeSystemUID(client),
		made: map[string]*informer.Informer{}, informers: map[kind][]toolscache.SharedIndexInformer{},
	}, nil
}

// clientFor returns a copy of given, or a client made from config, whose outermost round tripper is a transport.
func clientFor(config *rest.Config, given *http.Client) (*http.Client, error) {
	if given == nil {
		made, err := rest.HTTPClientFor(config)
		if err != nil {
			return nil, fmt.Errorf("could not create HTTP client from config: %w", err)
		}
		given = made
	}
	c := *given
	if c.Transport == nil {
		c.Transport = http.DefaultTransport
	}
	c.Transport = transport{c.Transport}
	return &c, nil
}

// Errors of the function that NewCache returns.
var (
	// ErrOptions: an option cannot hold for every informer of a cache, or a required option is missing.
	ErrOptions = errors.New("the options cannot be used for a cache")
)

// Errors of GetInformer, and of the first Get or List of a kind.
var (
	// ErrIdentity: the collection cannot be derived from the informer's list request. No informer is made: two
	// informers with different selectors or namespaces in one collection would serve each other's objects.
	ErrIdentity = errors.New("what the informer lists cannot be established")
)

// MapperProvider returns a function for the MapperProvider of a manager's or a cluster's options. It makes the
// RESTMapper of package mapper, which needs no API server for kinds that are in the store. A cache of NewCache runs
// that RESTMapper. If the program wraps it in a RESTMapper of its own, the program must run it:
// mgr.Add(manager.RunnableFunc(func(ctx context.Context) error { m.Run(ctx); return nil })).
func MapperProvider(st *store.Store) func(*rest.Config, *http.Client) (meta.RESTMapper, error) {
	return func(config *rest.Config, client *http.Client) (meta.RESTMapper, error) {
		m, err := mapper.New(config, client, st)
		if err != nil {
			return nil, err // a plain nil, not a nil *mapper.Mapper in the interface
		}
		return m, nil
	}
}

// mapperFor returns a function that makes the RESTMapper of a cache without one in its options. Without a store, that
// RESTMapper is controller-runtime's.
func mapperFor(template informer.Options) func(*rest.Config, *http.Client) (meta.RESTMapper, error) {
	if template.InMemory || template.Store == nil {
		return apiutil.NewDynamicRESTMapper
	}
	return MapperProvider(template.Store)
}

// madeCache is a cache of NewCache, with Larder's RESTMapper. Its GetInformer also returns the informers of single
// namespaces, which controller-runtime hides even if there is only one.
type madeCache struct {
	cache.Cache
	adapter *adapter
	scheme  *runtime.Scheme
	mapper  *mapper.Mapper // mapper is nil if the RESTMapper is not Larder's
}

func (c madeCache) Start(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	if c.mapper != nil {
		wg.Go(func() { c.mapper.Run(ctx) })
	}
	return c.Cache.Start(ctx)
}

// NeedLeaderElection returns the answer of the wrapped cache. A manager runs the cache as a Runnable, and without this
// method would start it only after the leader election.
func (c madeCache) NeedLeaderElection() bool {
	says, ok := c.Cache.(manager.LeaderElectionRunnable)
	return !ok || says.NeedLeaderElection()
}

// GetInformer returns the *informer.Informer for objects like obj if they are in one collection.
func (c madeCache) GetInformer(
	ctx context.Context, obj client.Object, opts ...cache.InformerGetOption,
) (cache.Informer, error) {
	inf, err := c.Cache.GetInformer(ctx, obj, opts...)
	if err != nil {
		return nil, err
	}
	return c.adapter.reveal(inf, obj), nil
}

func (c madeCache) GetInformerForKind(
	ctx context.Context, gvk schema.GroupVersionKind, opts ...cache.InformerGetOption,
) (cache.Informer, error) {
	inf, err := c.Cache.GetInformerForKind(ctx, gvk, opts...)
	if err != nil {
		return nil, err
	}
	obj, err := c.scheme.New(gvk)
	if err != nil {
		return nil, err
	}
	return c.adapter.reveal(inf, obj), nil
}

// severalInformers is controller-runtime's informer over several namespaces, with the informers of the namespaces.
type severalInformers struct {
	cache.Informer
	all []toolscache.SharedIndexInformer
}

// reveal returns the informer, or the severalInformers, that controller-runtime's inf for objects like obj hides.
func (a *adapter) reveal(inf cache.Informer, obj runtime.Object) cache.Informer {
	if _, one := inf.(toolscache.SharedIndexInformer); one {
		return inf
	}
	a.mu.Lock()
	all := slices.Clone(a.informers[kindOf(obj)])
	a.mu.Unlock()
	all = slices.DeleteFunc(all, func(i toolscache.SharedIndexInformer) bool { return i.IsStopped() })
	if len(all) == 1 {
		return all[0]
	}
	return severalInformers{inf, all}
}

// note adds inf, an informer for objects like obj, to informers. It replaces an older informer on the same collection.
func (a *adapter) note(obj runtime.Object, inf toolscache.SharedIndexInformer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	kind := kindOf(obj)
	a.informers[kind] = append(slices.DeleteFunc(a.informers[kind], func(old toolscache.SharedIndexInformer) bool {
		was, wasErr := informer.Of(old)
		is, isErr := informer.Of(inf)
		return wasErr != nil || isErr == nil && was.Identity() == is.Identity()
	}), inf)
}

// kind identifies the informers of a cache: a cache has one for each kind and namespace.
type kind struct {
	goType reflect.Type
	gvk    schema.GroupVersionKind // gvk is empty if goType determines the kind
}

func kindOf(obj runtime.Object) kind {
	k := kind{goType: reflect.TypeOf(obj)}
	switch obj.(type) {
	case runtime.Unstructured, *metav1.PartialObjectMetadata:
		k.gvk = obj.GetObjectKind().GroupVersionKind()
	}
	return k
}
