package controllerruntime

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"path"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

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
