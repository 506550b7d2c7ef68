package controllerruntime

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/informer/durable"
)

// Durable is a source of requests for the objects of one kind that keeps its cursor across restarts. After a restart
// the controller gets the requests that were due, and the requests of objects that have changed or were deleted, and no
// others. Pass the Durable to WatchesRawSource, and wrap the controller's Reconciler with Durable's, which acknowledges
// finished requests:
//
//	pods := controllerruntime.NewDurable("my-controller", mgr.GetCache(), &corev1.Pod{})
//	err := ctrl.NewControllerManagedBy(mgr).Named("my-controller").
//		WatchesRawSource(pods).
//		Complete(pods.Reconciler(r))
//
// A request is done when the Reconciler has returned no error and no RequeueAfter, or a TerminalError. Otherwise it
// stays due, and a restart enqueues it at once. Up to 1,000 requests may be due; no others are enqueued until some are
// done. If a controller requeues each of more than 1,000 objects, use the For of ctrl's builder.
//
// The name identifies the cursor in the file. See package informer/durable for the guarantees.
type Durable struct {
	name  string
	cache cache.Informers
	obj   client.Object

	started atomic.Bool
	begun   chan struct{}            // begun is closed when keys or err is set; neither may be read before
	keys    map[string]*durable.Keys // keys has the durable.Keys of each namespace; "" is all namespaces
	err     error
}

var _ source.SyncingSource = &Durable{}

// NewDurable returns a source of the objects like obj, in one or several namespaces. The cache must be NewCache's.
func NewDurable(name string, c cache.Informers, obj client.Object) *Durable {
	return &Durable{name: name, cache: c, obj: obj, begun: make(chan struct{})}
}

// Start is called by the controller. A second call fails, since a cursor belongs to one controller.
func (d *Durable) Start(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	if d.started.Swap(true) {
		return fmt.Errorf(
			"durable source %q has been started before; each controller needs one of its own, with another name", d.name)
	}
	go func() {
		defer close(d.begun)
		d.keys, d.err = d.register(ctx, queue)
	}()
	return nil
}

func (d *Durable) register(
	ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request],
) (map[string]*durable.Keys, error) {
	cached, err := d.cache.GetInformer(ctx, d.obj, cache.BlockUntilSynced(false))
	if err != nil {
		return nil, fmt.Errorf("durable source %q: %w", d.name, err)
	}
	var informers []toolscache.SharedIndexInformer
	switch cached := cached.(type) {
	case toolscache.SharedIndexInformer:
		informers = []toolscache.SharedIndexInformer{cached}
	case severalInformers:
		informers = cached.all
	default:
		return nil, fmt.Errorf("durable source %q of %T: its informer is a %T, not one of NewCache", d.name, d.obj, cached)
	}
	all := map[string]*durable.Keys{}
	for _, shared := range informers {
		inf, err := informer.Of(shared)
		if err == nil {
			all[inf.Identity().Namespace], err = inf.Durable().AddKeys(d.name, func(key toolscache.ObjectName) {
				<-d.begun // the Reconciler looks up the key in d.keys, so wait until it is set
				queue.Add(reconcile.Request{NamespacedName: client.ObjectKey{Namespace: key.Namespace, Name: key.Name}})
			})
		}
		if err != nil {
			return nil, fmt.Errorf("durable source %q of %T: %w", d.name, d.obj, err)
		}
	}
	return all, nil
}

// begin must be called before a request is reconciled. The caller calls the returned function afterwards, and passes
// true if the request is done.
func (d *Durable) begin(request reconcile.Request) (end func(done bool)) {
	keys := d.keys[request.Namespace]
	if keys == nil {
		keys = d.keys[""]
	}
	if keys == nil { // the request is from another source
		return func(bool) {}
	}
	return keys.Begin(toolscache.NewObjectName(request.Namespace, request.Name))
}

// WaitForSync returns when the requests for all due keys, or the maximum number of them, have been added.
func (d *Durable) WaitForSync(ctx context.Context) error {
	select {
	case <-d.begun:
	case <-ctx.Done():
		return fmt.Errorf("durable source %q: its informer did not come: %w", d.name, context.Cause(ctx))
	}
	if d.err != nil {
		return d.err
	}
	for _, keys := range d.keys {
		select {
		case <-keys.HasSyncedChecker().Done():
		case <-ctx.Done():
			return fmt.Errorf("durable source %q: it has not synced: %w", d.name, context.Cause(ctx))
		}
	}
	return nil
}

// Reconciler returns a Reconciler that calls r and acknowledges the requests that are done.
func (d *Durable) Reconciler(r reconcile.Reconciler) reconcile.Reconciler {
	return reconcile.Func(func(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
		end := func(bool) {}
		select {
		case <-d.begun:
			if d.err == nil {
				end = d.begin(request)
			}
		default: // the request is from another source
		}
		result, err := r.Reconcile(ctx, request)
		done := err == nil && result.RequeueAfter == 0 && !result.Requeue //nolint:staticcheck // deprecated, and in use
		end(done || errors.Is(err, reconcile.TerminalError(nil)))
		return result, err
	})
}
