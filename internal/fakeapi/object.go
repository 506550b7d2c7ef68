package fakeapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"sync/atomic"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// object is an API object at one resourceVersion. It is immutable.
type object struct {
	kind            *kind
	key             string
	namespace, name string
	uid             types.UID
	rv              uint64
	labels          labels.Set
	// nodeName and phase are the selectable fields of pods.
	nodeName, phase string
	// raw is the original encoding: protobuf without its envelope for built-in kinds, JSON for custom ones.
	raw []byte
	// derived caches the other encodings, made when they are first requested.
	derived [representations]atomic.Pointer[[]byte]
}

// marshaler is the interface of the generated protobuf code of built-in types.
type marshaler interface {
	runtime.Object
	Marshal() ([]byte, error)
	Unmarshal(data []byte) error
}

// stamp is the metadata that the server sets when it writes an object.
type stamp struct {
	rv        uint64
	uid       types.UID
	created   metav1.Time // creationTimestamp to set; zero keeps the object's own
	namespace string
}

func (st stamp) apply(m metav1.Object) {
	m.SetResourceVersion(formatRV(st.rv))
	m.SetUID(st.uid)
	if !st.created.IsZero() {
		m.SetCreationTimestamp(st.created)
	}
	if st.namespace != "" {
		m.SetNamespace(st.namespace)
	}
}

// newObject encodes obj with the metadata of the stamp. It does not modify obj, and shares only strings with obj.
func newObject(k *kind, obj runtime.Object, st stamp) (*object, error) {
	if k.custom() {
		return newCustomObject(k, obj, st)
	}
	copied, err := k.shallowCopy(obj)
	if err != nil {
		return nil, err
	}
	m, err := meta.Accessor(copied)
	if err != nil {
		return nil, err
	}
	st.apply(m)
	copied.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	raw, err := copied.Marshal()
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", k.Kind, err)
	}
	o := describe(k, m, st.rv)
	if pod, ok := runtime.Object(copied).(*corev1.Pod); ok {
		o.nodeName, o.phase = pod.Spec.NodeName, string(pod.Status.Phase)
	}
	o.raw = raw
	return o, nil
}

func newCustomObject(k *kind, obj runtime.Object, st stamp) (*object, error) {
	content, err := toContent(obj)
	if err != nil {
		return nil, err
	}
	top := maps.Clone(content)
	top["apiVersion"], top["kind"] = k.GroupVersion().String(), k.Kind
	if md, ok := top["metadata"].(map[string]any); ok {
		top["metadata"] = maps.Clone(md)
	}
	u := &unstructured.Unstructured{Object: top}
	st.apply(u)
	raw, err := json.Marshal(top)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", k.Kind, err)
	}
	o := describe(k, u, st.rv)
	o.raw = raw
	return o, nil
}

func describe(k *kind, m metav1.Object, rv uint64) *object {
	o := &object{
		kind: k, namespace: m.GetNamespace(), name: m.GetName(), uid: m.GetUID(), rv: rv,
		labels: maps.Clone(m.GetLabels()),
	}
	o.key = k.key(o.namespace, o.name)
	return o
}

var _ fields.Fields = (*object)(nil)

func (o *object) Has(string) bool { return true }

func (o *object) Get(field string) string {
	switch field {
	case fieldName:
		return o.name
	case fieldNamespace:
		return o.namespace
	case fieldNode:
		return o.nodeName
	case fieldPhase:
		return o.phase
	}
	return ""
}

// shallowCopy returns obj as a struct of the kind's type. Setting metadata of the copy does not change obj.
func (k *kind) shallowCopy(obj runtime.Object) (marshaler, error) {
	fresh := reflect.New(k.typ)
	copied, ok := fresh.Interface().(marshaler)
	if !ok {
		return nil, fmt.Errorf("%s cannot be encoded as protobuf", k.typ)
	}
	switch v := reflect.ValueOf(obj); {
	case v.Kind() == reflect.Pointer && v.Type().Elem() == k.typ:
		fresh.Elem().Set(v.Elem())
	default:
		content, err := toContent(obj)
		if err != nil {
			return nil, err
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, copied); err != nil {
			return nil, fmt.Errorf("%T is no %s: %w", obj, k.Kind, err)
		}
	}
	return copied, nil
}

func toContent(obj runtime.Object) (map[string]any, error) {
	if u, ok := obj.(runtime.Unstructured); ok {
		return u.UnstructuredContent(), nil
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil, fmt.Errorf("convert %T: %w", obj, err)
	}
	return content, nil
}

func (o *object) decode() (runtime.Object, error) {
	if o.kind.custom() {
		u := &unstructured.Unstructured{}
		return u, u.UnmarshalJSON(o.raw)
	}
	typed, ok := reflect.New(o.kind.typ).Interface().(marshaler)
	if !ok {
		return nil, fmt.Errorf("%s cannot be decoded from protobuf", o.kind.typ)
	}
	return typed, typed.Unmarshal(o.raw)
}

func (o *object) unstructured() (*unstructured.Unstructured, error) {
	body, err := o.standalone(asJSON)
	if err != nil {
		return nil, err
	}
	u := &unstructured.Unstructured{}
	return u, u.UnmarshalJSON(body)
}

// at returns the object with another resourceVersion. A watch reports a deletion as the object's last state at the
// resourceVersion of the deletion.
func (o *object) at(rv uint64) (*object, error) {
	obj, err := o.decode()
	if err != nil {
		return nil, err
	}
	m, err := meta.Accessor(obj)
	if err != nil {
		return nil, err
	}
	return newObject(o.kind, obj, stamp{rv: rv, uid: o.uid, created: m.GetCreationTimestamp()})
}

func formatRV(rv uint64) string { return strconv.FormatUint(rv, 10) }

// Resource is one resource that the server serves.
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
