package controllerruntime

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/internal/fakeapi"
	"github.com/larder-dev/larder/store"
)

const benchObjects = 100_000

// benchWidget is the Go type of a custom resource as large as a pod: about 3 KB of JSON.
type benchWidget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              corev1.PodSpec   `json:"spec"`
	Status            corev1.PodStatus `json:"status"`
}

func (w *benchWidget) DeepCopyObject() runtime.Object {
	c := &benchWidget{TypeMeta: w.TypeMeta}
	w.ObjectMeta.DeepCopyInto(&c.ObjectMeta)
	w.Spec.DeepCopyInto(&c.Spec)
	w.Status.DeepCopyInto(&c.Status)
	return c
}

type benchWidgetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []benchWidget `json:"items"`
}

func (l *benchWidgetList) DeepCopyObject() runtime.Object {
	c := &benchWidgetList{l.TypeMeta, l.ListMeta, make([]benchWidget, len(l.Items))}
	for i := range l.Items {
		c.Items[i] = *l.Items[i].DeepCopyObject().(*benchWidget)
	}
	return c
}

func newBenchWidget(i int) *benchWidget {
	labels := map[string]string{"app": "web"}
	w := &benchWidget{ObjectMeta: objectMeta(fmt.Sprint("ns-", i/1000), fmt.Sprint("w-", i), labels)}
	w.APIVersion, w.Kind = widgetKind.GroupVersion().String(), widgetKind.Kind
	for c := range 4 {
		env := make([]corev1.EnvVar, 8)
		for e := range env {
			env[e] = corev1.EnvVar{Name: fmt.Sprintf("SETTING_%d_%d", c, e), Value: fmt.Sprintf("value-%d-of-%d", e, i)}
		}
		w.Spec.Containers = append(w.Spec.Containers, corev1.Container{
			Name: fmt.Sprint("container-", c), Image: "registry.example/image:v1", Args: []string{"--one", "--two"}, Env: env,
		})
	}
	w.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	return w
}

// BenchmarkCustomResources starts a cache on 100,000 typed custom resources until a handler has received all of them.
// controller-runtime's own cache lists them in a watch or, with KUBE_FEATURE_WatchListClient=false, in a list.
func BenchmarkCustomResources(b *testing.B) {
	scheme := runtime.NewScheme()
	scheme.AddKnownTypeWithName(widgetKind, &benchWidget{})
	scheme.AddKnownTypeWithName(widgetKind.GroupVersion().WithKind("WidgetList"), &benchWidgetList{})
	metav1.AddToGroupVersion(scheme, widgetKind.GroupVersion())
	srv := fakeapi.New(fakeapi.Options{Resources: []fakeapi.Resource{{
		GroupVersionResource: widgets, Kind: widgetKind.Kind, Singular: "widget", Namespaced: true,
	}}})
	if err := srv.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(srv.Stop)
	for i := range benchObjects {
		data, err := runtime.DefaultUnstructuredConverter.ToUnstructured(newBenchWidget(i))
		if err == nil {
			u := unstructuredOf(widgetKind)
			u.Object = data
			err = srv.Load(widgets, u)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	b.Run("larder", func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			s, err := store.Open(filepath.Join(b.TempDir(), "larder.db"), store.Options{})
			if err != nil {
				b.Fatal(err)
			}
			b.StartTimer()
			coldStart(b, srv, scheme, NewCache(informer.Options{Store: s}))
			b.StopTimer()
			if err := s.Close(); err != nil {
				b.Fatal(err)
			}
			b.StartTimer()
		}
	})
	b.Run("controller-runtime", func(b *testing.B) {
		for b.Loop() {
			coldStart(b, srv, scheme, cache.New)
		}
	})
}

func coldStart(b *testing.B, srv *fakeapi.Server, scheme *runtime.Scheme, newCache cache.NewCacheFunc) {
	ctx, cancel := context.WithCancel(b.Context())
	config := rest.CopyConfig(srv.Config())
	c, err := newCache(config, cache.Options{Scheme: scheme})
	if err != nil {
		b.Fatal(err)
	}
	i, err := c.GetInformer(ctx, &benchWidget{}, cache.BlockUntilSynced(false))
	if err != nil {
		b.Fatal(err)
	}
	var added atomic.Int32
	all := make(chan struct{})
	_, err = i.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: func(any) {
		if added.Add(1) == benchObjects {
			close(all)
		}
	}})
	if err != nil {
		b.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		if err := c.Start(ctx); err != nil {
			b.Error(err)
		}
	})
	<-all
	cancel()
	running.Wait()
}
