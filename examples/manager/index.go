package main

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const secretIndex = "spec.template.spec.volumes.secret"

// indexBySecret adds the index of Deployments by Secret to the manager's cache. The index is also stored. A new build
// of the program computes it again.
func indexBySecret(ctx context.Context, mgr ctrl.Manager) error {
	return mgr.GetFieldIndexer().IndexField(ctx, &appsv1.Deployment{}, secretIndex, func(obj client.Object) []string {
		return secretsOf(obj.(*appsv1.Deployment))
	})
}

func secretsOf(deployment *appsv1.Deployment) []string {
	var names []string
	for _, volume := range deployment.Spec.Template.Spec.Volumes {
		if volume.Secret != nil {
			names = append(names, volume.Secret.SecretName)
		}
	}
	return names
}

func usersOf(ctx context.Context, c client.Reader, secret types.NamespacedName) ([]appsv1.Deployment, error) {
	var list appsv1.DeploymentList
	err := c.List(ctx, &list, client.InNamespace(secret.Namespace), client.MatchingFields{secretIndex: secret.Name})
	return list.Items, err
}

func requestFor(namespace, name string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}
}
