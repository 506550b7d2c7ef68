package controllerruntime

import (
	"net/http"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/informer/mapper"
	"github.com/larder-dev/larder/store"
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
