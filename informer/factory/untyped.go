package factory

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/dynamic/dynamiclister"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/metadata/metadatalister"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/informer/requests"
)

// NewDynamicSharedInformerFactory returns a factory like dynamicinformer's, with Larder's informers. If the options are
// invalid, every informer and lister that ForResource returns fails with the reason.
func NewDynamicSharedInformerFactory(
	client dynamic.Interface, defaultResync time.Duration, o Options,
) dynamicinformer.DynamicSharedInformerFactory {
	made, err := o.connect(dynamic.ConfigFor)
	return newUntypedFactory(defaultResync, o, form{
		err:     err,
		example: func() runtime.Object { return &unstructured.Unstructured{} },
		codec:   codec.UnstructuredWith(scheme.Scheme), // a store of larder sync may contain protobuf
		listWatch: func(id entry.Identity) cache.ListerWatcher {
			return reading(made, client.Resource(id.GroupVersionResource).Namespace(id.Namespace), id)
		},
		lister: func(indexer cache.Indexer, gvr schema.GroupVersionResource) cache.GenericLister {
			return dynamiclister.NewRuntimeObjectShim(dynamiclister.New(indexer, gvr))
		},
		clusterID: clusterID(client, func(ctx context.Context, name string) (metav1.Object, error) {
			return client.Resource(namespaces).Get(ctx, name, metav1.GetOptions{})
		}),
		schemas: schemas(o.RESTClient),
	})
}

// NewMetadataSharedInformerFactory returns a factory like metadatainformer's, with Larder's informers. If the options
// are invalid, every informer and lister that ForResource returns fails with the reason.
func NewMetadataSharedInformerFactory(
	client metadata.Interface, defaultResync time.Duration, o Options,
) metadatainformer.SharedInformerFactory {
	made, err := o.connect(metadata.ConfigFor)
	return newUntypedFactory(defaultResync, o, form{
		err:     err,
		example: func() runtime.Object { return &metav1.PartialObjectMetadata{} },
		listWatch: func(id entry.Identity) cache.ListerWatcher {
			id.Representation = entry.Metadata
			return reading(made, client.Resource(id.GroupVersionResource).Namespace(id.Namespace), id)
		},
		lister: func(indexer cache.Indexer, gvr schema.GroupVersionResource) cache.GenericLister {
			return metadatalister.NewRuntimeObjectShim(metadatalister.New(indexer, gvr))
		},
		clusterID: clusterID(client, func(ctx context.Context, name string) (metav1.Object, error) {
			return client.Resource(namespaces).Get(ctx, name, metav1.GetOptions{})
		}),
	})
}

var errShutDown = errors.New("the informer factory has been shut down; make another")

// untypedFactory is the dynamic or the metadata factory.
type untypedFactory struct {
	maker
	err    error // err is why the factory cannot make informers; nil if it can
	resync time.Duration
	form   form

	wg        sync.WaitGroup // wg waits for the running informers
	unstarted sync.Once      // unstarted limits the log line about types that were not started to one

	mu           sync.Mutex // mu guards informers and shuttingDown
	informers    map[schema.GroupVersionResource]*untypedInformer
	shuttingDown bool
}

// form has the differences between the dynamic and the metadata factory.
type form struct {
	err       error // err is why the factory cannot make informers; nil if it can
	example   func() runtime.Object
	codec     codec.Codec // codec is nil for the default codec of example
	listWatch func(id entry.Identity) cache.ListerWatcher
	lister    func(indexer cache.Indexer, gvr schema.GroupVersionResource) cache.GenericLister
	clusterID func(context.Context) (string, error)
	schemas   *requests.Schemas // schemas is nil for metadata, which do not depend on the schema
}

func newUntypedFactory(defaultResync time.Duration, o Options, f form) *untypedFactory {
	err := errors.Join(f.err, o.validate())
	if len(o.CustomResync) > 0 || o.InformerName != nil {
		err = errors.New("Options.CustomResync and InformerName are for the typed factory only")
	}
	return &untypedFactory{
		maker: maker{o: o, scope: o.scope(), clusterID: f.clusterID, schemas: f.schemas},
		err:   err, resync: defaultResync, form: f,
		informers: map[schema.GroupVersionResource]*untypedInformer{},
	}
}

// ForResource returns the informer for gvr. It makes one if there is none, which may take half a minute if another
// informer of the collection is about to end.
func (f *untypedFactory) ForResource(gvr schema.GroupVersionResource) informers.GenericInformer {
	f.mu.Lock()
	defer f.mu.Unlock()
	if known := f.informers[gvr]; known != nil {
		return known
	}
	inf, err := f.newInformerLocked(gvr)
	if err != nil {
		// A refused informer is kept too, so that WaitForCacheSync does not succeed.
		err = fmt.Errorf("informer factory, %s: %w", gvr.GroupResource(), err)
		inf = &untypedInformer{informer: informer.Refused(f.form.example(), err), lister: refusedLister{err}}
	}
	f.informers[gvr] = inf
	return inf
}

func (f *untypedFactory) newInformerLocked(gvr schema.GroupVersionResource) (*untypedInformer, error) {
	switch {
	case f.err != nil:
		return nil, f.err
	case f.shuttingDown:
		return nil, errShutDown
	}
	id := f.identity(gvr)
	o := f.options(id)
	o.ResyncPeriod, o.ObjectDescription, o.Codec = f.resync, gvr.String(), f.form.codec
	ours, err := informer.New(f.form.listWatch(id), f.form.example(), o)
	if err != nil {
		return nil, err
	}
	if f.o.Transform != nil {
		if err := ours.SetTransform(f.o.Transform); err != nil {
			return nil, errors.Join(err, ours.Close())
		}
	}
	return &untypedInformer{informer: ours, lister: f.form.lister(ours.GetIndexer(), gvr)}, nil
}

func (f *untypedFactory) Start(stopCh <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.shuttingDown {
		return
	}
	ctx := wait.ContextForChannel(stopCh)
	for _, inf := range f.informers {
		if !inf.started {
			inf.started = true
			f.wg.Go(func() { inf.informer.RunWithContext(ctx) })
		}
	}
}

func (f *untypedFactory) WaitForCacheSync(stopCh <-chan struct{}) map[schema.GroupVersionResource]bool {
	f.logUnstarted()
	started := f.started()
	var checkers []cache.DoneChecker
	for _, inf := range started {
		checkers = append(checkers, inf.HasSyncedChecker())
	}
	cache.WaitFor(wait.ContextForChannel(stopCh), "", checkers...)
	synced := map[schema.GroupVersionResource]bool{}
	for gvr, inf := range started {
		synced[gvr] = inf.HasSynced()
	}
	return synced
}

func (f *untypedFactory) logUnstarted() {
	f.mu.Lock()
	defer f.mu.Unlock()
	var names []string
	for gvr, inf := range f.informers {
		if i, err := informer.Of(inf.informer); err == nil && !inf.started && i.File() != nil {
			names = append(names, gvr.GroupResource().String())
		}
	}
	slices.Sort(names)
	logUnstarted(f.o.Informer.Logger, &f.unstarted, names)
}

func (f *untypedFactory) started() map[schema.GroupVersionResource]cache.SharedIndexInformer {
	f.mu.Lock()
	defer f.mu.Unlock()
	started := map[schema.GroupVersionResource]cache.SharedIndexInformer{}
	for gvr, inf := range f.informers {
		if inf.started {
			started[gvr] = inf.informer
		}
	}
	return started
}

// Shutdown waits until the started informers have ended, which requires the end of their channels or contexts. Then it
// closes the informers that were never started. No informer can be started after it.
func (f *untypedFactory) Shutdown() {
	f.logUnstarted()
	f.mu.Lock()
	f.shuttingDown = true
	var ours []*informer.Informer
	for _, inf := range f.informers {
		if i, err := informer.Of(inf.informer); err == nil { // Of fails for refused informers
			ours = append(ours, i)
		}
	}
	f.mu.Unlock()
	f.wg.Wait()
	if err := closeAll(ours); err != nil {
		utilruntime.HandleError(fmt.Errorf("shut down the informer factory: %w", err))
	}
}

// untypedInformer is an informers.GenericInformer of an untypedFactory.
type untypedInformer struct {
	informer cache.SharedIndexInformer
	lister   cache.GenericLister
	started  bool // the factory's mu guards started
}

func (i *untypedInformer) Informer() cache.SharedIndexInformer { return i.informer }

func (i *untypedInformer) Lister() cache.GenericLister { return i.lister }

// refusedLister is the lister of a resource for which no informer could be made; its methods fail with the reason. The
// lister of a refused informer's indexer would return an empty result.
type refusedLister struct{ err error }

func (l refusedLister) List(labels.Selector) ([]runtime.Object, error)  { return nil, l.err }
func (l refusedLister) Get(string) (runtime.Object, error)              { return nil, l.err }
func (l refusedLister) ByNamespace(string) cache.GenericNamespaceLister { return l }
