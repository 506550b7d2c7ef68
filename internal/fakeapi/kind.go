package fakeapi

import (
	"reflect"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

type Resource struct {
	schema.GroupVersionResource
	Kind       string
	Singular   string
	ShortNames []string
	Namespaced bool
	Categories []string
	// AsWritten serves objects with exactly the metadata that was written, apart from UID and resourceVersion, even if
	// that metadata does not fit ObjectMeta. Requests for metadata are answered with whole objects, as some aggregated
	// APIs do.
	AsWritten bool
}

type kind struct {
	Resource
	// typ is the Go struct of a built-in resource; nil for a custom resource.
	typ reflect.Type
}

var namespacesGVR = corev1.SchemeGroupVersion.WithResource("namespaces")

func builtinKinds() []*kind {
	core := func(plural, kindName, singular string, namespaced bool, obj runtime.Object, short ...string) *kind {
		return &kind{
			Resource: Resource{
				GroupVersionResource: corev1.SchemeGroupVersion.WithResource(plural),
				Kind:                 kindName, Singular: singular, ShortNames: short, Namespaced: namespaced,
			},
			typ: reflect.TypeOf(obj).Elem(),
		}
	}
	pods := core("pods", "Pod", "pod", true, &corev1.Pod{}, "po")
	pods.Categories = []string{"all"}
	deployments := core("deployments", "Deployment", "deployment", true, &appsv1.Deployment{}, "deploy")
	deployments.Categories = []string{"all"}
	deployments.GroupVersionResource = appsv1.SchemeGroupVersion.WithResource("deployments")
	return []*kind{
		pods,
		core("configmaps", "ConfigMap", "configmap", true, &corev1.ConfigMap{}, "cm"),
		core("secrets", "Secret", "secret", true, &corev1.Secret{}),
		core("nodes", "Node", "node", false, &corev1.Node{}, "no"),
		core("namespaces", "Namespace", "namespace", false, &corev1.Namespace{}, "ns"),
		deployments,
	}
}

func customKinds(resources []Resource) []*kind {
	var out []*kind
	for _, r := range resources {
		r.ShortNames = slices.Clone(r.ShortNames)
		out = append(out, &kind{Resource: r})
	}
	return out
}

func newNamespace(name string) *corev1.Namespace {
	return &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelMetadataName: name}},
		Spec:       corev1.NamespaceSpec{Finalizers: []corev1.FinalizerName{corev1.FinalizerKubernetes}},
		Status:     corev1.NamespaceStatus{Phase: corev1.NamespaceActive},
	}
}

func (k *kind) custom() bool { return k.typ == nil }

func (k *kind) gvk() schema.GroupVersionKind { return k.GroupVersion().WithKind(k.Kind) }

func (k *kind) key(namespace, name string) string {
	if k.Namespaced {
		return namespace + "/" + name
	}
	return name
}
