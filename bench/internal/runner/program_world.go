package runner

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

type programKind struct {
	schema.GroupVersionResource
	kind string
	more map[string]any
}

// builtIn are the resources for programs with a typed factory. No controller of kube-apiserver changes their objects.
var builtIn = []programKind{
	{resourceOf("", "v1", "configmaps"), "ConfigMap", nil},
	{resourceOf("", "v1", "secrets"), "Secret", nil},
	{resourceOf("", "v1", "serviceaccounts"), "ServiceAccount", nil},
	{resourceOf("", "v1", "resourcequotas"), "ResourceQuota", nil},
	{resourceOf("", "v1", "limitranges"), "LimitRange", map[string]any{"spec": map[string]any{"limits": []any{}}}},
	{resourceOf("coordination.k8s.io", "v1", "leases"), "Lease", nil},
	{resourceOf("rbac.authorization.k8s.io", "v1", "roles"), "Role", map[string]any{"rules": []any{}}},
	{resourceOf("networking.k8s.io", "v1", "networkpolicies"), "NetworkPolicy",
		map[string]any{"spec": map[string]any{"podSelector": map[string]any{}}}},
}

func resourceOf(group, version, resource string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: group, Version: version, Resource: resource}
}

var (
	namespaces  = resourceOf("", "v1", "namespaces")
	definitions = resourceOf("apiextensions.k8s.io", "v1", "customresourcedefinitions")
)

const (
	programNamespace = "programs"
	programGroup     = "programs.bench.larder.dev"
)

// programKinds returns n kinds: built-in kinds if there are enough, otherwise custom kinds.
func programKinds(n int) []programKind {
	if n <= len(builtIn) {
		return builtIn[:n]
	}
	var all []programKind
	for i := range n {
		name := fmt.Sprintf("kind%04d", i)
		all = append(all, programKind{resourceOf(programGroup, "v1", name+"s"), "Kind" + name[len("kind"):], nil})
	}
	return all
}

type programWorld struct {
	client  dynamic.Interface
	changes int // number of the last change, written into the objects
}

// fill creates the program's missing custom resource definitions, and replaces its objects.
func (w *programWorld) fill(ctx context.Context, one Program) error {
	ns := object("Namespace", schema.GroupVersion{Version: "v1"}, "", programNamespace, nil)
	_, err := w.client.Resource(namespaces).Create(ctx, ns, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	kinds := programKinds(one.Kinds)
	if one.custom() {
		if err := w.define(ctx, kinds); err != nil {
			return err
		}
	}
	for _, k := range kinds {
		client := w.client.Resource(k.GroupVersionResource).Namespace(programNamespace)
		if err := client.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
			return err
		}
		for n := range one.Objects {
			obj := object(k.kind, k.GroupVersion(), programNamespace, objectName(n), k.more)
			if _, err := client.Create(ctx, obj, metav1.CreateOptions{}); err != nil {
				return err
			}
		}
	}
	return nil
}

func objectName(n int) string { return fmt.Sprintf("object-%05d", n) }

func object(
	kind string, gv schema.GroupVersion, namespace, name string, more map[string]any,
) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(more)}
	if more == nil {
		u.Object = map[string]any{}
	}
	u.SetAPIVersion(gv.String())
	u.SetKind(kind)
	u.SetNamespace(namespace)
	u.SetName(name)
	return u
}

func (w *programWorld) define(ctx context.Context, kinds []programKind) error {
	for _, k := range kinds {
		crd := object("CustomResourceDefinition", definitions.GroupVersion(), "", k.Resource+"."+k.Group, map[string]any{
			"spec": map[string]any{
				"group": k.Group, "scope": "Namespaced",
				"names": map[string]any{"plural": k.Resource, "singular": k.Resource[:len(k.Resource)-1], "kind": k.kind},
				"versions": []any{map[string]any{"name": k.Version, "served": true, "storage": true, "schema": map[string]any{
					"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true},
				}}},
			},
		})
		_, err := w.client.Resource(definitions).Create(ctx, crd, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	for _, k := range kinds {
		client := w.client.Resource(k.GroupVersionResource).Namespace(programNamespace)
		for {
			_, err := client.List(ctx, metav1.ListOptions{Limit: 1})
			if err == nil {
				break
			}
			if !apierrors.IsNotFound(err) {
				return err
			}
			select {
			case <-ctx.Done():
				return errors.Join(ctx.Err(), err)
			case <-time.After(pause):
			}
		}
	}
	return nil
}

// change changes objects of each kind. It also changes a namespace, so that the server's resourceVersion always
// advances.
func (w *programWorld) change(ctx context.Context, one Program) error {
	w.changes++
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{"change":"%d"}}}`, w.changes)
	for _, k := range programKinds(one.Kinds) {
		client := w.client.Resource(k.GroupVersionResource).Namespace(programNamespace)
		for n := range one.Changes {
			name := objectName((w.changes + n) % one.Objects)
			if _, err := client.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
				return err
			}
		}
	}
	_, err := w.client.Resource(namespaces).Patch(ctx, programNamespace, types.MergePatchType, patch,
		metav1.PatchOptions{})
	return err
}
