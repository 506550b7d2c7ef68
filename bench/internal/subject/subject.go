package subject

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/larder-dev/larder/bench/internal/load"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/store"
)

// NamespaceIndex is the index that every informer has, as factories give it to theirs.
const NamespaceIndex = cache.NamespaceIndex

// IndexVersions say that the index is the same in every process, so that a restart need not build it.
func IndexVersions() map[string]string { return map[string]string{NamespaceIndex: "1"} }

// seldomBytes is store.Options.CommitBytes where a Spec has a CommitInterval: so much that the interval decides.
const seldomBytes = 32 << 20

// Options say what to start.
type Options struct {
	Spec   Spec
	Kind   load.Kind
	Config *rest.Config
	// File is Larder's.
	File string
	// Handler is registered before the start. Default: none.
	Handler cache.ResourceEventHandler
}

// Running is an informer that runs. Stop it.
type Running struct {
	Informer cache.SharedIndexInformer
	// Larder and Store are nil for client-go.
	Larder *informer.Informer
	Store  *store.Store
	// Network is the way to the server.
	Network *Network
	commits *commits
	// Handler is the registration of Options.Handler; nil without one.
	Handler cache.ResourceEventHandlerRegistration
	// Started is when the first thing was done.
	Started time.Time

	cancel context.CancelFunc
	done   chan struct{}
}

// Start makes an informer and runs it.
func Start(ctx context.Context, o Options) (*Running, error) {
	klog.SetLogger(logr.Discard())
	r := &Running{Started: time.Now(), Network: NewNetwork(), commits: newCommits(), done: make(chan struct{})}
	c, err := newClient(r.Network.Wrap(o.Config), o.Kind, o.Spec.Dynamic)
	if err != nil {
		return nil, err
	}
	example := o.Kind.Example
	if o.Spec.Dynamic {
		example = &unstructured.Unstructured{}
	}
	switch o.Spec.Library {
	case Larder:
		err = r.makeLarder(c, o, example)
	case ClientGo, ClientGoList:
		r.Informer = cache.NewSharedIndexInformer(c.lw, example, 0, cache.Indexers{NamespaceIndex: cache.MetaNamespaceIndexFunc})
	default:
		err = fmt.Errorf("%s is no informer", o.Spec)
	}
	if err == nil {
		err = r.prepare(o.Handler)
	}
	if err != nil {
		return nil, errors.Join(err, r.closeStore())
	}
	ctx, r.cancel = context.WithCancel(ctx)
	go func() {
		defer close(r.done)
		r.Informer.RunWithContext(ctx)
	}()
	return r, nil
}

func (r *Running) makeLarder(c *client, o Options, example runtime.Object) (err error) {
	discard := logr.Discard()
	so := store.Options{Logger: &discard}
	if so.CommitInterval = o.Spec.CommitInterval; so.CommitInterval > 0 {
		so.CommitBytes = seldomBytes
	}
	if r.Store, err = store.Open(o.File, so); err != nil {
		return err
	}
	id := entry.Identity{GroupVersionResource: o.Kind.GVR}
	options := informer.Options{
		Store:         r.Store,
		Identity:      id,
		ListMetadata:  informer.ListMetadata(c.rest, id),
		SyncPolicy:    o.Spec.Policy,
		Indexers:      cache.Indexers{NamespaceIndex: cache.MetaNamespaceIndexFunc},
		IndexVersions: IndexVersions(),
		ClusterID:     informer.KubeSystemUID(c.rest),
		OpenAPIHash:   informer.OpenAPIHash(c.rest, o.Kind.GVR.GroupVersion()),
		Observer:      r.commits,
		Logger:        &discard,
	}
	if err := setResidency(o.Spec.Residency, &options); err != nil {
		return err
	}
	if r.Larder, err = informer.New(c.lw, example, options); err != nil {
		return err
	}
	r.Informer = r.Larder
	return nil
}

// prepare does what has to be done before the start.
func (r *Running) prepare(handler cache.ResourceEventHandler) (err error) {
	err = r.Informer.SetWatchErrorHandlerWithContext(func(context.Context, *cache.Reflector, error) {})
	if err != nil || handler == nil {
		return err
	}
	r.Handler, err = r.Informer.AddEventHandler(handler)
	return err
}

// AwaitSync waits for HasSynced and returns how long it took since the start.
func (r *Running) AwaitSync(ctx context.Context) (time.Duration, error) {
	if err := r.await(ctx, r.Informer.HasSyncedChecker()); err != nil {
		return 0, err
	}
	return time.Since(r.Started), nil
}

// AwaitTold waits until the handler has been told the state.
func (r *Running) AwaitTold(ctx context.Context) error {
	return r.await(ctx, r.Handler.HasSyncedChecker())
}

func (r *Running) await(ctx context.Context, checker cache.DoneChecker) error {
	select {
	case <-checker.Done():
		return nil
	case <-ctx.Done():
		err := fmt.Errorf("%s has not come: %w", checker.Name(), ctx.Err())
		if r.Larder != nil {
			err = errors.Join(err, r.Larder.Status().Err)
		}
		return err
	}
}

// Stop ends the run, waits for it and closes the store, which writes what is pending.
func (r *Running) Stop() error {
	r.cancel()
	<-r.done
	return r.closeStore()
}

func (r *Running) closeStore() error {
	if r.Store == nil {
		return nil
	}
	return r.Store.Close()
}
