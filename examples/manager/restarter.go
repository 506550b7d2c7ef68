package main

import (
	"context"
	"log/slog"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// secretsAnnotation is the annotation of a pod template with the resourceVersions of its Secrets: db=123 tls=456.
const secretsAnnotation = "example.larder.dev/secrets"

// restarter starts rollouts of Deployments whose Secrets have changed.
type restarter struct{ client.Client }

func (r *restarter) setup(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).Named("restarter").
		For(&appsv1.Deployment{}).
		WatchesMetadata(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(r.usersOfSecret)).
		Complete(r)
}

func (r *restarter) usersOfSecret(ctx context.Context, secret client.Object) []reconcile.Request {
	found, err := usersOf(ctx, r, client.ObjectKeyFromObject(secret))
	if err != nil {
		klog.FromContext(ctx).Error(err, "Reading the index failed", "secret", klog.KObj(secret))
	}
	var requests []reconcile.Request
	for _, deployment := range found {
		requests = append(requests, requestFor(deployment.Namespace, deployment.Name))
	}
	return requests
}

// Every Deployment is reconciled at a start. So a Secret that was deleted while the process was down is noticed: Get
// does not find it.
//
// As with any cache of controller-runtime, a controller does not receive deletions of its own kind from the time when
// the process was down. Work for these needs a finalizer, or a handler that is added before the manager starts (see
// package controllerruntime).
func (r *restarter) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var deployment appsv1.Deployment
	if err := r.Get(ctx, req.NamespacedName, &deployment); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	slog.Info("reconcile", "reconciler", "restarter", "key", req.String(), "resourceVersion", deployment.ResourceVersion)

	var versions []string
	for _, name := range secretsOf(&deployment) {
		secret := secretMetadata()
		err := r.Get(ctx, client.ObjectKey{Namespace: req.Namespace, Name: name}, secret)
		if client.IgnoreNotFound(err) != nil {
			return ctrl.Result{}, err
		}
		if err == nil {
			versions = append(versions, name+"="+secret.ResourceVersion)
		}
	}
	template, want := &deployment.Spec.Template, strings.Join(versions, " ")
	if template.Annotations[secretsAnnotation] == want {
		return ctrl.Result{}, nil
	}
	before := deployment.DeepCopy()
	metav1.SetMetaDataAnnotation(&template.ObjectMeta, secretsAnnotation, want)
	return ctrl.Result{}, client.IgnoreNotFound(r.Patch(ctx, &deployment, client.MergeFrom(before)))
}

// secretMetadata returns an object for reading a Secret's metadata, the only part of a Secret in the cache.
func secretMetadata() *metav1.PartialObjectMetadata {
	secret := &metav1.PartialObjectMetadata{}
	secret.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	return secret
}
