package factory

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/informer/requests"
)

// NewSharedInformerFactory returns client-go's factory, with Larder's informers for the listed types. types are example
// objects such as &corev1.Pod{}. The informers of all other types are client-go's, which is logged once when they
// start. All options but Informer hold for both.
//
// It fails with ErrOptions if there is no type, a type is listed twice, client-go has no typed informer for it, an
// option is missing or cannot hold for all informers, or a selector does not parse; or with the error of opening a
// collection. If it fails, nothing is left open.
func NewSharedInformerFactory(
	client kubernetes.Interface, defaultResync time.Duration, o Options, types ...runtime.Object,
) (informers.SharedInformerFactory, error) {
	s := o.scope()
	if err := o.validate(s); err != nil {
		return nil, fmt.Errorf("shared informer factory: %w", err)
	}
	listed, err := resourcesOf(types)
	if err != nil {
		return nil, fmt.Errorf("shared informer factory: %w: %w", ErrOptions, err)
	}
	f := &sharedInformerFactory{SharedInformerFactory: informers.NewSharedInformerFactoryWithOptions(client, defaultResync,
		o.stock()...)}
	if missing(o.RESTClient) {
		o.RESTClient = client.Discovery().RESTClient()
	}
	maker := typedMaker{o: o, scope: s, clusterID: typedClusterID(client), schemas: schemas(o.RESTClient)}
	for _, r := range listed {
		if err := f.register(maker, r); err != nil {
			return nil, fmt.Errorf("shared informer factory: %w", errors.Join(err, closeAll(f.ours)))
		}
	}
	return f, nil
}

// sharedInformerFactory is client-go's factory with Larder's informers for some types.
type sharedInformerFactory struct {
	informers.SharedInformerFactory
	ours  []*informer.Informer
	types []reflect.Type // of ours
	// stock has the types whose informers are client-go's and have been started.
	stock struct {
		mu     sync.Mutex
		logged map[reflect.Type]bool // guarded by mu
	}
}

// register makes the informer of r and registers it by InformerFor, so that the factory makes none of its own. The
// factory passes the resync period of the type, and sets the transform.
func (f *sharedInformerFactory) register(maker typedMaker, r resource) error {
	var failed error
	f.InformerFor(r.example, func(client kubernetes.Interface, resync time.Duration) cache.SharedIndexInformer {
		inf, err := maker.informer(client, r, resync)
		if err != nil {
			failed = err
			return informer.Refused(r.example, err)
		}
		f.ours, f.types = append(f.ours, inf), append(f.types, reflect.TypeOf(r.example))
		return inf
	})
	return failed
}

// Start is client-go's; it logs once which of the started informers are client-go's.
func (f *sharedInformerFactory) Start(stop <-chan struct{}) {
	f.StartWithContext(wait.ContextForChannel(stop))
}

// StartWithContext is client-go's; it logs once which of the started informers are client-go's.
func (f *sharedInformerFactory) StartWithContext(ctx context.Context) {
	f.SharedInformerFactory.StartWithContext(ctx)
	f.logStock(klog.FromContext(ctx))
}

// logStock logs each type that was started as client-go's informer and has not been logged.
func (f *sharedInformerFactory) logStock(logger klog.Logger) {
	started, cancel := context.WithCancel(context.Background())
	cancel() // to be told at once which have been started
	f.stock.mu.Lock()
	defer f.stock.mu.Unlock()
	for t := range f.WaitForCacheSyncWithContext(started).Synced {
		ours := slices.Contains(f.types, t)
		if ours || f.stock.logged[t] {
			continue
		}
		if f.stock.logged == nil {
			f.stock.logged = map[reflect.Type]bool{}
		}
		f.stock.logged[t] = true
		logger.Info("This type was not given to the factory: its informer is client-go's, which keeps it in memory and "+
			"lists it at each start", "type", t.String())
	}
}

// Shutdown is client-go's; then it gives back what was never started.
func (f *sharedInformerFactory) Shutdown() {
	f.SharedInformerFactory.Shutdown()
	if err := closeAll(f.ours); err != nil {
		utilruntime.HandleError(fmt.Errorf("shut down the shared informer factory: %w", err))
	}
}

// closeAll gives back those informers that were never started.
func closeAll(all []*informer.Informer) error {
	var errs []error
	for _, inf := range all {
		errs = append(errs, inf.Close())
	}
	return errors.Join(errs...)
}

// typedMaker makes the typed informers of a factory.
type typedMaker struct {
	o         Options
	scope     scope
	clusterID func(context.Context) (string, error)
	schemas   *requests.Schemas // nil without a REST client
}

func (m typedMaker) informer(
	client kubernetes.Interface, r resource, resync time.Duration,
) (*informer.Informer, error) {
	s := m.scope
	if !r.namespaced {
		s.namespace = ""
	}
	return m.o.newInformer(s.listWatch(client, r.requests(client, s.namespace)), r.example, informer.Options{
		Identity:     s.identity(r.GroupVersionResource),
		Resource:     r.info(),
		ResyncPeriod: resync,
		ClusterID:    m.clusterID,
		OpenAPIHash:  openAPIHash(m.schemas, r.GroupVersion()),
	})
}

func typedClusterID(client kubernetes.Interface) func(context.Context) (string, error) {
	return clusterID(client, func(ctx context.Context, name string) (metav1.Object, error) {
		return client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
	})
}
