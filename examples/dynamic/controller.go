package main

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	"github.com/larder-dev/larder/informer"
)

var widgets = schema.GroupVersionResource{Group: "example.larder.dev", Version: "v1", Resource: "widgets"}

// controller keeps status.area of every Widget.
type controller struct {
	client   dynamic.NamespaceableResourceInterface
	lister   cache.GenericLister
	informer cache.SharedIndexInformer
	queue    workqueue.TypedRateLimitingInterface[cache.ObjectName]
}

func newController(client dynamic.Interface, of informers.GenericInformer) (*controller, error) {
	c := &controller{
		client:   client.Resource(widgets),
		lister:   of.Lister(),
		informer: of.Informer(),
		queue:    workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[cache.ObjectName]()),
	}
	// Handlers that are added before the factory starts receive every change since the process stopped. Existing objects
	// arrive as additions, as usual. Objects that were deleted meanwhile arrive as deletions, which a controller with a
	// cache in memory never receives.
	_, err := c.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    c.enqueue,
		UpdateFunc: func(_, obj any) { c.enqueue(obj) },
		DeleteFunc: c.enqueue,
	})
	return c, err
}

func (c *controller) enqueue(obj any) {
	name, err := cache.DeletionHandlingObjectToName(obj)
	if err != nil {
		klog.ErrorS(err, "An object without a name is left out")
		return
	}
	c.queue.Add(name)
}

// run waits for the cache and reconciles until ctx ends. Then it waits for running reconciles.
func (c *controller) run(ctx context.Context, workers int) {
	var wg sync.WaitGroup
	defer wg.Wait()
	defer c.queue.ShutDown() // closing the queue ends the workers
	if !cache.WaitForCacheSync(ctx.Done(), c.informer.HasSynced) {
		return // ctx has ended before the sync
	}
	// Now the lister is as fresh as after a list: the server has confirmed the state of the cache.
	if larder, ok := c.informer.(*informer.Informer); ok { // Status is a method of Larder's informer
		s := larder.Status()
		slog.Info("synced", "source", s.Source, "objects", s.Objects, "resumes", s.Reflector.Resumes, "lists",
			s.Reflector.Lists)
	}
	for range workers {
		wg.Go(func() { c.work(ctx) })
	}
	<-ctx.Done()
}

func (c *controller) work(ctx context.Context) {
	for {
		name, shutdown := c.queue.Get()
		if shutdown {
			return
		}
		if err := c.reconcile(ctx, name); err != nil {
			klog.ErrorS(err, "Reconciling failed, it will be tried again", "widget", name)
			c.queue.AddRateLimited(name)
		} else {
			c.queue.Forget(name)
		}
		c.queue.Done(name)
	}
}

func (c *controller) reconcile(ctx context.Context, name cache.ObjectName) error {
	log := slog.With("reconciler", "widget", "key", name.String())
	obj, err := c.lister.ByNamespace(name.Namespace).Get(name.Name)
	if apierrors.IsNotFound(err) {
		log.Info("gone") // the Widget was deleted: clean up resources outside of the cluster here
		return nil
	}
	if err != nil {
		return err
	}
	widget, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return fmt.Errorf("the lister returned a %T", obj)
	}
	log.Info("reconcile", "resourceVersion", widget.GetResourceVersion())

	width, _, err := unstructured.NestedInt64(widget.Object, "spec", "width")
	if err != nil {
		return err
	}
	height, _, err := unstructured.NestedInt64(widget.Object, "spec", "height")
	if err != nil {
		return err
	}
	area, found, err := unstructured.NestedInt64(widget.Object, "status", "area")
	if err != nil || found && area == width*height {
		return err
	}
	widget = widget.DeepCopy() // objects of a lister are shared, so change a copy
	if err := unstructured.SetNestedField(widget.Object, width*height, "status", "area"); err != nil {
		return err
	}
	_, err = c.client.Namespace(name.Namespace).UpdateStatus(ctx, widget, metav1.UpdateOptions{})
	return err
}
