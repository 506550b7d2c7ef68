package storetest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
)

// Pods is the identity of the collection of Pods in all namespaces.
var Pods = entry.Identity{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "pods"}}

const (
	// ColorLabel is a label with the values that ByColor returns, separated by dots.
	ColorLabel = "color"
	// FailLabel is a label that makes ByColor fail: the value is "error" or "panic".
	FailLabel = "fail"
)

func ByColor(obj any) ([]string, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return nil, fmt.Errorf("a %T has no color", obj)
	}
	switch pod.Labels[FailLabel] {
	case "error":
		return nil, errors.New("asked to fail")
	case "panic":
		panic("asked to panic")
	}
	if pod.Labels[ColorLabel] == "" {
		return nil, nil
	}
	return strings.Split(pod.Labels[ColorLabel], "."), nil
}

func ByName(obj any) ([]string, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return nil, fmt.Errorf("a %T has no name", obj)
	}
	return []string{pod.Name}, nil
}

// Pod returns a pod. labels has the names of the pod's labels, and after each name its value.
func Pod(key, uid, rv string, labels ...string) *corev1.Pod {
	ns, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		name = key
	}
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: ns, Name: name, UID: types.UID(uid), ResourceVersion: rv,
	}}
	for i := 0; i+1 < len(labels); i += 2 {
		if labels[i+1] != "" {
			metav1.SetMetaDataLabel(&p.ObjectMeta, labels[i], labels[i+1])
		}
	}
	return p
}

func PodCodec() codec.Codec {
	codec, err := codec.For(&corev1.Pod{})
	if err != nil {
		return nil
	}
	return codec
}

// Sum describes a pod in one line. Tests treat pods with equal descriptions as equal.
func Sum(obj runtime.Object) string {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return fmt.Sprintf("%T", obj)
	}
	if pod == nil {
		return "nothing"
	}
	key, _ := cache.MetaNamespaceKeyFunc(pod)
	s := fmt.Sprintf("%s uid=%s rv=%s", key, pod.UID, pod.ResourceVersion)
	for _, name := range slices.Sorted(maps.Keys(pod.Labels)) {
		s += " " + name + "=" + pod.Labels[name]
	}
	return s
}
