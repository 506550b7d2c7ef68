package factory

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/informer/requests"
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

// NewInformer returns the informer of one resource, for InformerFor of an informer factory that was generated with a
// clientset:
//
//	f := externalversions.NewSharedInformerFactory(client, resync)
//	f.InformerFor(&v1.Foo{}, func(c versioned.Interface, resync time.Duration) cache.SharedIndexInformer {
//		return factory.NewInformer(c.ExampleV1().RESTClient(), v1.SchemeGroupVersion.WithResource("foos"), &v1.Foo{},
//			informer.Options{Store: st, ResyncPeriod: resync})
//	})
//
// client is the clientset's REST client for the resource's group, because its scheme knows the objects. It lists and
// watches, and makes the requests of the guards. The namespace and the selectors are taken from the Identity of the
// informer.Options; the default is all objects. Identity.GroupVersionResource, OpenAPIHash and ListMetadata must be
// empty, since NewInformer derives them. An index by namespace is added. The generated factory sets the transform
// (WithTransform), which needs informer.Options.TransformVersion; without it the run fails.
//
// NewInformer cannot return an error. If no informer can be made, it returns informer.Refused with the reason. Fake
// clientsets have no REST client, and are refused: use informer.New with requests.ClientListWatch in their unit tests.
func NewInformer(
	client rest.Interface, gvr schema.GroupVersionResource, example runtime.Object, o informer.Options,
) cache.SharedIndexInformer {
	inf, err := newGenerated(client, gvr, example, o)
	if err != nil {
		return informer.Refused(example, fmt.Errorf("informer of %s: %w", gvr.GroupResource(), err))
	}
	return inf
}

func newGenerated(
	client rest.Interface, gvr schema.GroupVersionResource, example runtime.Object, o informer.Options,
) (*informer.Informer, error) {
	switch {
	case missing(client):
		return nil, errors.New("there is no REST client, as in a fake clientset: use informer.New with " +
			"requests.ClientListWatch")
	case !o.Identity.GroupVersionResource.Empty():
		return nil, errors.New("Options.Identity.GroupVersionResource must be empty: it is an argument")
	case o.OpenAPIHash != nil || o.ListMetadata != nil:
		return nil, errors.New("Options.OpenAPIHash and Options.ListMetadata must be empty: they are made from the client")
	}
	m := maker{
		o:         Options{Informer: o, RESTClient: client},
		scope:     o.Identity,
		clusterID: requests.KubeSystemUID(client),
		schemas:   requests.NewSchemas(client),
	}
	id := m.identity(gvr)
	return informer.New(requests.ListWatch(client, id), example, m.options(id))
}

// clusterScoped has the kinds of client-go's types that have no namespace. Without discovery, the scope of a type is
// known only from this list.
var clusterScoped = strings.Fields(`
	CSIDriver CSINode CertificateSigningRequest ClusterRole ClusterRoleBinding ClusterTrustBundle ComponentStatus
	DeviceClass DeviceTaintRule FlowSchema IPAddress IngressClass MutatingAdmissionPolicy MutatingAdmissionPolicyBinding
	MutatingWebhookConfiguration Namespace Node PersistentVolume PriorityClass PriorityLevelConfiguration
	ResourcePoolStatusRequest ResourceSlice RuntimeClass ServiceCIDR StorageClass StorageVersion StorageVersionMigration
	ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding ValidatingWebhookConfiguration VolumeAttachment
	VolumeAttributesClass`)

// resource is a type that client-go has a typed informer for.
type resource struct {
	schema.GroupVersionResource
	entry.ResourceInfo // ResourceInfo has only the fields that are known without discovery
	example            runtime.Object
}

func resourcesOf(examples []runtime.Object) (found []resource, err error) {
	if len(examples) == 0 {
		return nil, errors.New("no types are listed: nothing would be stored; list an example object of each type whose " +
			"informer is to be persistent")
	}
	listed := map[reflect.Type]bool{}
	for _, example := range examples {
		r, ok := resourceOf(example)
		if !ok {
			return nil,
				fmt.Errorf("client-go has no typed informer for %T; use NewDynamicSharedInformerFactory, or informer.New", example)
		}
		t := reflect.TypeOf(example)
		if listed[t] {
			return nil, fmt.Errorf("%T is listed twice", example)
		}
		listed[t] = true
		found = append(found, r)
	}
	return found, nil
}

// resourceOf returns the resource of an example object, and false if client-go's scheme does not know it. The plural
// name is meta's guess, which TestResourcesAreComplete verifies for all types.
func resourceOf(example runtime.Object) (r resource, ok bool) {
	if _, ok := example.(metav1.Object); !ok {
		return r, false
	}
	gvks, _, err := scheme.Scheme.ObjectKinds(example)
	if err != nil {
		return r, false
	}
	gvr, _ := meta.UnsafeGuessKindToResource(gvks[0])
	kind := gvks[0].Kind
	info := entry.ResourceInfo{Kind: kind, Namespaced: !slices.Contains(clusterScoped, kind)}
	return resource{gvr, info, example}, true
}

// typedListWatch returns the ListerWatcher for id. It uses client's REST client or, with a fake clientset, actions.
func typedListWatch(client kubernetes.Interface, r resource, id entry.Identity) (cache.ListerWatcher, error) {
	if rest := client.CoreV1().RESTClient(); !missing(rest) {
		return requests.ListWatch(rest, id), nil
	}
	fake, ok := client.(clientsetFake)
	if !ok {
		return nil, fmt.Errorf("%T has no REST client", client)
	}
	return requests.ClientListWatch(fakeClient{fake, r, id.Namespace}, id), nil
}

// clientsetFake is implemented by every fake clientset of client-go.
type clientsetFake interface {
	Invokes(action testing.Action, defaultReturnObj runtime.Object) (runtime.Object, error)
	InvokesWatch(action testing.Action) (watch.Interface, error)
}

// fakeClient lists and watches like a fake clientset's client of one type: List ignores the field selector, and Watch
// ignores both selectors. It implements requests.Client.
type fakeClient struct {
	clientsetFake
	resource
	namespace string
}

func (c fakeClient) List(_ context.Context, o metav1.ListOptions) (runtime.Object, error) {
	kind := c.GroupVersion().WithKind(c.Kind)
	list, err := scheme.Scheme.New(kind.GroupVersion().WithKind(kind.Kind + "List"))
	if err != nil {
		return nil, err
	}
	list, err = c.Invokes(testing.NewListActionWithOptions(c.GroupVersionResource, kind, c.namespace, o), list)
	if err != nil || o.LabelSelector == "" {
		return list, err
	}
	selector, err := labels.Parse(o.LabelSelector)
	if err != nil {
		return nil, err
	}
	all, err := meta.ExtractList(list)
	if err != nil {
		return nil, err
	}
	var selected []runtime.Object
	for _, obj := range all {
		if acc, err := meta.Accessor(obj); err == nil && selector.Matches(labels.Set(acc.GetLabels())) {
			selected = append(selected, obj)
		}
	}
	return list, meta.SetList(list, selected)
}

func (c fakeClient) Watch(_ context.Context, o metav1.ListOptions) (watch.Interface, error) {
	o.Watch = true
	return c.InvokesWatch(testing.NewWatchActionWithOptions(c.GroupVersionResource, c.namespace, o))
}
