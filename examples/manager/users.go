package main

import (
	"context"
	"log/slog"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// users is a reconciler that maintains a ConfigMap for every Secret. The Secret owns the ConfigMap, so the garbage
// collector deletes the ConfigMap after the Secret.
type users struct{ client.Client }

func (r *users) setup(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).Named("users").
		For(&corev1.Secret{}, builder.OnlyMetadata).
		Owns(&corev1.ConfigMap{}).
		Watches(&appsv1.Deployment{}, handler.EnqueueRequestsFromMapFunc(secretsOfDeployment)).
		Complete(r)
}

func secretsOfDeployment(_ context.Context, obj client.Object) []reconcile.Request {
	var requests []reconcile.Request
	for _, name := range secretsOf(obj.(*appsv1.Deployment)) {
		requests = append(requests, requestFor(obj.GetNamespace(), name))
	}
	return requests
}

// Every Secret is reconciled at a start. So a Deployment or ConfigMap that was deleted while the process was down is
// noticed: Get does not find it.
func (r *users) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	secret := secretMetadata()
	if err := r.Get(ctx, req.NamespacedName, secret); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	slog.Info("reconcile", "reconciler", "users", "key", req.String(), "resourceVersion", secret.ResourceVersion)

	deployments, err := usersOf(ctx, r, req.NamespacedName)
	if err != nil {
		return ctrl.Result{}, err
	}
	var names []string
	for _, deployment := range deployments {
		names = append(names, deployment.Name)
	}
	slices.Sort(names)
	configMap := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: req.Namespace, Name: req.Name + "-users"}}
	_, err = controllerutil.CreateOrUpdate(ctx, r, configMap, func() error {
		configMap.Data = map[string]string{"deployments": strings.Join(names, " ")}
		return controllerutil.SetControllerReference(secret, configMap, r.Scheme())
	})
	return ctrl.Result{}, err
}
