package factory

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/larder-dev/larder/informer"
)

// NewSharedInformerFactory returns client-go's factory, with Larder's informers for the listed types. types are example
// objects such as &corev1.Pod{}. The informers of all other types are client-go's, which is logged once when they
// start. All options except Informer apply to both kinds of informers.
//
// It fails if no type is listed, a type is listed twice, client-go has no typed informer for it, an option is missing
// or cannot hold for all informers, a selector does not parse, or a collection cannot be opened. If it fails, nothing
// is left open.
func NewSharedInformerFactory(
	client kubernetes.Interface, defaultResync time.Duration, o Options, types ...runtime.Object,
) (informers.SharedInformerFactory, error) {
	listed, err := resourcesOf(types)
	if err = errors.Join(o.validate(), err); err != nil {
		return nil, fmt.Errorf("shared informer factory: %w", err)
	}
	f := &sharedInformerFactory{
		SharedInformerFactory: informers.NewSharedInformerFactoryWithOptions(client, defaultResync, o.stock()...),
		known:                 map[reflect.Type]bool{}, logger: o.Informer.Logger,
	}
	if missing(o.RESTClient) {
		o.RESTClient = client.Discovery().RESTClient()
	}
	m := maker{o: o, scope: o.scope(), clusterID: typedClusterID(client), schemas: schemas(o.RESTClient)}
	for _, r := range listed {
		if err := f.register(m, r); err != nil {
			return nil, fmt.Errorf("shared informer factory: %w", errors.Join(err, closeAll(f.ours)))
		}
	}
	return f, nil
}

// sharedInformerFactory is client-go's factory with Larder's informers for some types.
type sharedInformerFactory struct {
	informers.SharedInformerFactory
	ours   []*informer.Informer
	types  []reflect.Type // types are the types of the informers in ours, in their order
	logger *logr.Logger   // logger is nil for klog's logger

	unstarted sync.Once // unstarted limits the log line about types that were not started to one

	mu sync.Mutex
	// known has the types with Larder's informers, and the types whose use of client-go's informers has been logged; mu
	// guards known.
	known map[reflect.Type]bool
}

// register makes the informer of r and registers it by InformerFor, so that the factory uses it. The factory passes the
// resync period of the type, and sets the transform.
func (f *sharedInformerFactory) register(m maker, r resource) error {
	var failed error
	f.InformerFor(r.example, func(client kubernetes.Interface, resync time.Duration) cache.SharedIndexInformer {
		id := m.identity(r.GroupVersionResource)
		if !r.Namespaced {
			id.Namespace = ""
		}
		each := m.options(id)
		each.Resource, each.ResyncPeriod = r.ResourceInfo, resync
		lw, err := typedListWatch(client, r, id)
		var inf *informer.Informer
		if err == nil {
			inf, err = informer.New(lw, r.example, each)
		}
		if err == nil && m.o.Transform != nil { // client-go's factory sets the transform too, but ignores the error
			if err = inf.SetTransform(m.o.Transform); err != nil {
				err = errors.Join(err, inf.Close())
			}
		}
		if err != nil {
			failed = err
			return informer.Refused(r.example, err)
		}
		f.ours, f.types = append(f.ours, inf), append(f.types, reflect.TypeOf(r.example))
		f.known[reflect.TypeOf(r.example)] = true
		return inf
	})
	return failed
}

func (f *sharedInformerFactory) Start(stop <-chan struct{}) {
	f.StartWithContext(wait.ContextForChannel(stop))
}

func (f *sharedInformerFactory) StartWithContext(ctx context.Context) {
	f.SharedInformerFactory.StartWithContext(ctx)
	f.logStock(klog.FromContext(ctx))
}

// logStock logs each type that was started with client-go's informer and has not been logged yet.
func (f *sharedInformerFactory) logStock(logger klog.Logger) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for t := range f.started() {
		if f.known[t] {
			continue
		}
		f.known[t] = true
		logger.Info("This type was not given to the factory: its informer is client-go's, which keeps it in memory and "+
			"lists it at each start", "type", t.String())
	}
}

func (f *sharedInformerFactory) started() map[reflect.Type]bool {
	ended, cancel := context.WithCancel(context.Background())
	cancel() // WaitForCacheSyncWithContext returns at once with a canceled context
	return f.SharedInformerFactory.WaitForCacheSyncWithContext(ended).Synced
}

func (f *sharedInformerFactory) logUnstarted() {
	started := f.started()
	var names []string
	for n, t := range f.types {
		if _, ok := started[t]; !ok && f.ours[n].File() != nil {
			names = append(names, t.String())
		}
	}
	logUnstarted(f.logger, &f.unstarted, names)
}

func logUnstarted(logger *logr.Logger, once *sync.Once, types []string) {
	if len(types) == 0 {
		return
	}
	once.Do(func() {
		to := klog.Background()
		if logger != nil {
			to = *logger
		}
		to.Info("These types were not started: their listers have what an earlier run has stored, and nothing newer. "+
			"Call Start after the informers have been made", "types", types)
	})
}

func (f *sharedInformerFactory) WaitForCacheSync(stop <-chan struct{}) map[reflect.Type]bool {
	f.logUnstarted()
	return f.SharedInformerFactory.WaitForCacheSync(stop)
}

func (f *sharedInformerFactory) WaitForCacheSyncWithContext(ctx context.Context) cache.SyncResult {
	f.logUnstarted()
	return f.SharedInformerFactory.WaitForCacheSyncWithContext(ctx)
}

// Shutdown waits for the started informers as in client-go, and closes the informers that were never started.
func (f *sharedInformerFactory) Shutdown() {
	f.logUnstarted()
	f.SharedInformerFactory.Shutdown()
	if err := closeAll(f.ours); err != nil {
		utilruntime.HandleError(fmt.Errorf("shut down the shared informer factory: %w", err))
	}
}

// closeAll closes the informers that were never started. The runs of the others must have ended.
func closeAll(all []*informer.Informer) error {
	var errs []error
	for _, inf := range all {
		errs = append(errs, inf.Close())
	}
	return errors.Join(errs...)
}

func typedClusterID(client kubernetes.Interface) func(context.Context) (string, error) {
	return clusterID(client, func(ctx context.Context, name string) (metav1.Object, error) {
		return client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
	})
}
