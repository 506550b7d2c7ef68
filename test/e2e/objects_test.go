package e2e

import (
	"context"
	"fmt"
	"reflect"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/tools/cache"
)

func pod(ns, name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, Labels: map[string]string{"app": "e2e"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "pause"}}},
	}
}

// names returns prefix-00000 and so on, from first to last-1.
func names(prefix string, first, last int) []string {
	var out []string
	for i := first; i < last; i++ {
		out = append(out, fmt.Sprintf("%s-%05d", prefix, i))
	}
	return out
}

func (c *cluster) createPods(t *testing.T, names []string) {
	t.Helper()
	inParallel(t, names, func(ctx context.Context, name string) error {
		_, err := c.client.CoreV1().Pods(c.ns).Create(ctx, pod(c.ns, name), metav1.CreateOptions{})
		return err
	})
}

func (c *cluster) touchPods(t *testing.T, names []string, value string) {
	t.Helper()
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"touched":%q}}}`, value)
	inParallel(t, names, func(ctx context.Context, name string) error {
		_, err := c.client.CoreV1().Pods(c.ns).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
		return err
	})
}

func (c *cluster) deletePods(t *testing.T, names []string) {
	t.Helper()
	now := int64(0)
	inParallel(t, names, func(ctx context.Context, name string) error {
		return c.client.CoreV1().Pods(c.ns).Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: &now})
	})
}

func (c *cluster) pods(t *testing.T) objects {
	t.Helper()
	list, err := c.client.CoreV1().Pods(c.ns).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	out := objects{}
	for i := range list.Items {
		out.put(t, &list.Items[i])
	}
	return out
}

func inParallel(t *testing.T, names []string, do func(ctx context.Context, name string) error) {
	t.Helper()
	inParallelBy(t, 8, names, do)
}

func inParallelBy(t *testing.T, workers int, names []string, do func(ctx context.Context, name string) error) {
	t.Helper()
	work, errs := make(chan string), make(chan error, len(names))
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for name := range work {
				if err := overLostConnections(t.Context(), name, do); err != nil {
					errs <- fmt.Errorf("%s: %w", name, err)
				}
			}
		})
	}
	for _, name := range names {
		work <- name
	}
	close(work)
	wg.Wait()
	close(errs)
	for err := range errs {
		t.Error(err)
	}
	if t.Failed() {
		t.FailNow()
	}
}

// overLostConnections calls do, and again if HTTP/2 gave the connection up: on a busy machine the server may not answer
// a ping in time. Then the lost request may have been executed.
func overLostConnections(ctx context.Context, name string, do func(ctx context.Context, name string) error) error {
	err := do(ctx, name)
	for try := 0; try < 3 && err != nil && utilnet.IsHTTP2ConnectionLost(err); try++ {
		if err = do(ctx, name); apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) {
			return nil
		}
	}
	return err
}

type objects map[string]runtime.Object

func (o objects) put(t *testing.T, obj runtime.Object) {
	t.Helper()
	key, err := cache.MetaNamespaceKeyFunc(obj)
	if err != nil {
		t.Fatal(err)
	}
	o[key] = obj
}

func (o objects) diff(other objects) string {
	for key, want := range o {
		got, found := other[key]
		if !found {
			return fmt.Sprintf("%s (RV %s) is missing", key, rvOf(want))
		}
		if rvOf(got) != rvOf(want) {
			return fmt.Sprintf("%s stands at RV %s, want %s", key, rvOf(got), rvOf(want))
		}
		if !equal(got, want) {
			return fmt.Sprintf("%s (RV %s) differs:\n got %+v\nwant %+v", key, rvOf(want), got, want)
		}
	}
	for key, extra := range other {
		if _, found := o[key]; !found {
			return fmt.Sprintf("%s (RV %s) should not be there", key, rvOf(extra))
		}
	}
	return ""
}

// equal compares unstructured objects exactly. It compares typed objects semantically, because they may come from
// protobuf or from JSON, which differ in nil and empty values.
func equal(a, b runtime.Object) bool {
	if _, ok := a.(*unstructured.Unstructured); ok {
		return reflect.DeepEqual(a, b)
	}
	return apiequality.Semantic.DeepEqual(a, b)
}

func (o objects) versions() map[string]string {
	out := make(map[string]string, len(o))
	for key, obj := range o {
		out[key] = rvOf(obj)
	}
	return out
}

func rvOf(obj any) string {
	m, err := meta.Accessor(obj)
	if err != nil {
		return "?"
	}
	return m.GetResourceVersion()
}

func setRV(obj runtime.Object, rv string) {
	if m, err := meta.Accessor(obj); err == nil {
		m.SetResourceVersion(rv)
	}
}
