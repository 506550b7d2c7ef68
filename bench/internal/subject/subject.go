package subject

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/larder-dev/larder/bench/internal/load"
	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/seed"
	"github.com/larder-dev/larder/store"
)

// Options are the options of Start.
type Options struct {
	Spec   Spec
	Kind   load.Kind
	Config *rest.Config
	File   string
	// Seed is the snapshot from which Larder's informer starts (Options.Seed). Default: it lists instead.
	Seed seed.Source
	// Handler is registered before the start. Default: none.
	Handler cache.ResourceEventHandler
}

// Running is a running informer. The caller must stop it.
type Running struct {
	Informer cache.SharedIndexInformer
	// Larder and Store are the informer and its store. They are nil for client-go.
	Larder  *informer.Informer
	Store   *store.Store
	Network *Network
	// Started is the time at which Start began.
	Started time.Time

	handler cache.ResourceEventHandlerRegistration // nil if no handler is registered
	commits *commits
	cancel  context.CancelFunc
	done    chan struct{}
}

// silence discards client-go's log. klog has one logger for the process, which must not be set while it is in use.
var silence = sync.OnceFunc(func() { klog.SetLogger(logr.Discard()) })

// Start creates an informer and runs it. Several goroutines may call Start at the same time.
func Start(ctx context.Context, o Options) (*Running, error) {
	silence()
	r := &Running{
		Started: time.Now(), Network: NewNetwork(),
		commits: &commits{made: make(chan struct{}, 1)}, done: make(chan struct{}),
	}
	if err := r.make(o); err != nil {
		return nil, errors.Join(err, r.closeStore())
	}
	ctx, r.cancel = context.WithCancel(ctx)
	go func() {
		defer close(r.done)
		r.Informer.RunWithContext(ctx)
	}()
	return r, nil
}

func (r *Running) make(o Options) error {
	c, err := newClient(r.Network.Wrap(o.Config), o.Kind, o.Spec.Dynamic)
	if err != nil {
		return err
	}
	example := o.Kind.Example
	if o.Spec.Dynamic {
		example = &unstructured.Unstructured{}
	}
	if o.Spec.Library == Larder {
		err = r.makeLarder(c, o, example)
	} else {
		indexers := cache.Indexers{NamespaceIndex: cache.MetaNamespaceIndexFunc}
		r.Informer = cache.NewSharedIndexInformer(c.lw, example, 0, indexers)
	}
	if err != nil {
		return err
	}
	if o.Spec.Strip {
		if err := r.Informer.SetTransform(strip); err != nil {
			return err
		}
	}
	err = r.Informer.SetWatchErrorHandlerWithContext(func(context.Context, *cache.Reflector, error) {})
	if err == nil && o.Handler != nil {
		r.handler, err = r.Informer.AddEventHandler(o.Handler)
	}
	return err
}

func strip(obj any) (any, error) {
	m, err := meta.Accessor(obj)
	if err == nil {
		m.SetManagedFields(nil)
	}
	return obj, err
}

// AwaitSync waits for HasSynced and returns the time since Start was called.
func (r *Running) AwaitSync(ctx context.Context) (time.Duration, error) {
	err := r.await(ctx, r.Informer.HasSyncedChecker())
	return time.Since(r.Started), err
}

// AwaitDelivered waits until the handler has received all objects.
func (r *Running) AwaitDelivered(ctx context.Context) error {
	return r.await(ctx, r.handler.HasSyncedChecker())
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

// Stop ends the run, waits for its end and closes the store, which commits dirty changes. Further calls do nothing.
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
