package main

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"strconv"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	appsinformers "k8s.io/client-go/informers/apps/v1"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	appslisters "k8s.io/client-go/listers/apps/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
)

// controller maintains a ConfigMap "<deployment>-summary" for every Deployment. The Deployment owns the ConfigMap, so
// the garbage collector deletes the ConfigMap after the Deployment.
type controller struct {
	client      kubernetes.Interface
	deployments appslisters.DeploymentLister
	configMaps  corelisters.ConfigMapLister
	synced      []cache.InformerSynced
	queue       workqueue.TypedRateLimitingInterface[cache.ObjectName]
}

func newController(
	client kubernetes.Interface, deployments appsinformers.DeploymentInformer, configMaps coreinformers.ConfigMapInformer,
) (*controller, error) {
	c := &controller{
		client:      client,
		deployments: deployments.Lister(),
		configMaps:  configMaps.Lister(),
		synced:      []cache.InformerSynced{deployments.Informer().HasSynced, configMaps.Informer().HasSynced},
		queue:       workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[cache.ObjectName]()),
	}
	// Handlers that are added before the factory starts receive every change since the process stopped. Existing objects
	// arrive as additions, as usual. Objects that were deleted meanwhile arrive as deletions, which a controller with a
	// cache in memory never receives.
	_, err := deployments.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    c.enqueue,
		UpdateFunc: func(_, obj any) { c.enqueue(obj) },
		DeleteFunc: c.enqueue,
	})
	if err != nil {
		return nil, err
	}
	_, err = configMaps.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    c.enqueueOwner,
		UpdateFunc: func(_, obj any) { c.enqueueOwner(obj) },
		DeleteFunc: c.enqueueOwner,
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

// enqueueOwner enqueues the Deployment that owns a ConfigMap, if any.
func (c *controller) enqueueOwner(obj any) {
	if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = tombstone.Obj
	}
	configMap, ok := obj.(*corev1.ConfigMap)
	if !ok {
		return
	}
	if owner := metav1.GetControllerOf(configMap); owner != nil && owner.Kind == "Deployment" {
		c.queue.Add(cache.NewObjectName(configMap.Namespace, owner.Name))
	}
}

// run waits for the caches and reconciles until ctx ends. Then it waits for running reconciles.
func (c *controller) run(ctx context.Context, workers int) {
	var wg sync.WaitGroup
	defer wg.Wait()
	defer c.queue.ShutDown() // closing the queue ends the workers
	if !cache.WaitForCacheSync(ctx.Done(), c.synced...) {
		return // ctx has ended before the sync
	}
	// Now the listers are as fresh as after a list: the server has confirmed the state of the cache. With --offline they
	// have the state of the last contact with the server, and later changes arrive as events.
	slog.Info("synced")
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
			klog.ErrorS(err, "Reconciling failed, it will be tried again", "deployment", name)
			c.queue.AddRateLimited(name)
		} else {
			c.queue.Forget(name)
		}
		c.queue.Done(name)
	}
}

func (c *controller) reconcile(ctx context.Context, name cache.ObjectName) error {
	log := slog.With("reconciler", "deployment", "key", name.String())
	deployment, err := c.deployments.Deployments(name.Namespace).Get(name.Name)
	if apierrors.IsNotFound(err) {
		log.Info("gone") // the Deployment was deleted, and the garbage collector removes the ConfigMap
		return nil
	}
	if err != nil {
		return err
	}
	log.Info("reconcile", "resourceVersion", deployment.ResourceVersion)

	want := summaryOf(deployment)
	have, err := c.configMaps.ConfigMaps(want.Namespace).Get(want.Name)
	switch {
	case apierrors.IsNotFound(err):
		_, err = c.client.CoreV1().ConfigMaps(want.Namespace).Create(ctx, want, metav1.CreateOptions{})
	case err != nil:
	case !metav1.IsControlledBy(have, deployment):
		err = fmt.Errorf("the ConfigMap %s belongs to somebody else", want.Name)
	case !maps.Equal(have.Data, want.Data):
		have = have.DeepCopy() // objects of a lister are shared, so change a copy
		have.Data = want.Data
		_, err = c.client.CoreV1().ConfigMaps(want.Namespace).Update(ctx, have, metav1.UpdateOptions{})
	}
	return err
}

func summaryOf(deployment *appsv1.Deployment) *corev1.ConfigMap {
	data := map[string]string{"replicas": strconv.Itoa(int(*deployment.Spec.Replicas))}
	for _, container := range deployment.Spec.Template.Spec.Containers {
		data["image."+container.Name] = container.Image
	}
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: deployment.Namespace,
			Name:      deployment.Name + "-summary",
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(deployment,
				appsv1.SchemeGroupVersion.WithKind("Deployment"))},
		},
		Data: data,
	}
}
