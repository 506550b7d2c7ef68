package informer_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/informer/requests"
	"github.com/larder-dev/larder/internal/fakeapi"
	"github.com/larder-dev/larder/store"
)

const listedPods = 100_000

// wholeLists is a RESTListWatch that cannot list metadata, so that the informer lists whole objects.
type wholeLists struct {
	cache.ListerWatcher
	request func(o metav1.ListOptions) *rest.Request
}

func (w wholeLists) Request(o metav1.ListOptions) *rest.Request { return w.request(o) }

func listedPod(i int) *corev1.Pod {
	app := fmt.Sprintf("service-%05d", i/100)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: fmt.Sprintf("ns-%03d", i%100), Name: fmt.Sprintf("%s-%06d", app, i),
			Labels:      map[string]string{"app.kubernetes.io/name": app, "app.kubernetes.io/instance": app + "-production"},
			Annotations: map[string]string{"checksum/config": fmt.Sprintf("%064x", i)},
		},
		Spec:   corev1.PodSpec{NodeName: fmt.Sprintf("node-%04d", i%500), ServiceAccountName: app},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIP: fmt.Sprintf("10.2.%d.%d", i/250%250, i%250)},
	}
	for n := range 2 {
		c := corev1.Container{Name: fmt.Sprint("main-", n), Image: fmt.Sprintf("registry.example/%s:%d", app, n)}
		for e := range 12 {
			c.Env = append(c.Env, corev1.EnvVar{Name: fmt.Sprint("SETTING_NUMBER_", e), Value: fmt.Sprintf("%040d", i*e)})
		}
		pod.Spec.Containers = append(pod.Spec.Containers, c)
	}
	return pod
}

// BenchmarkListUnchanged measures a start with an expired resourceVersion, at which the server lists 100,000 unchanged
// pods. Run it with -benchtime 1x: the setup takes half a minute.
func BenchmarkListUnchanged(b *testing.B) {
	srv := fakeapi.New(fakeapi.Options{History: 1000})
	if err := srv.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(srv.Stop)
	pods := corev1.SchemeGroupVersion.WithResource("pods")
	configMaps := corev1.SchemeGroupVersion.WithResource("configmaps")
	for i := range listedPods {
		if err := srv.Load(pods, listedPod(i)); err != nil {
			b.Fatal(err)
		}
	}
	for _, c := range []struct {
		name, accept string
		example      runtime.Object
		decodes      bool
	}{
		{"protobuf", runtime.ContentTypeProtobuf, &corev1.Pod{}, false},
		{"JSON", runtime.ContentTypeJSON, &unstructured.Unstructured{}, false},
		{"ListerWatcher", runtime.ContentTypeProtobuf, &corev1.Pod{}, true},
	} {
		b.Run(c.name, func(b *testing.B) {
			config := rest.CopyConfig(srv.Config())
			config.ContentType, config.AcceptContentTypes = c.accept, c.accept
			config.GroupVersion, config.APIPath = &corev1.SchemeGroupVersion, "/api"
			config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
			if u, ok := c.example.(*unstructured.Unstructured); ok {
				u.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
				config.NegotiatedSerializer = dynamic.ConfigFor(config).NegotiatedSerializer
			}
			client, err := rest.RESTClientFor(config)
			if err != nil {
				b.Fatal(err)
			}
			file := filepath.Join(b.TempDir(), "bench.db")
			run := func() (stop func()) {
				st, err := store.Open(file, store.Options{})
				if err != nil {
					b.Fatal(err)
				}
				id := entry.Identity{GroupVersionResource: pods}
				lw := requests.ListWatch(client, id)
				inf, err := informer.New(wholeLists{lw, lw.Request}, c.example, informer.Options{Store: st, Identity: id,
					Residency: store.None, ClientDecodes: c.decodes})
				if err != nil {
					b.Fatal(err)
				}
				ctx, cancel := context.WithCancel(b.Context())
				done := make(chan struct{})
				go func() { defer close(done); inf.RunWithContext(ctx) }()
				for !inf.HasSynced() {
					time.Sleep(time.Millisecond)
				}
				if n := inf.Status().Objects; n != listedPods {
					b.Fatal(n, "objects")
				}
				return func() {
					cancel()
					<-done
					if err := st.Close(); err != nil {
						b.Fatal(err)
					}
				}
			}
			run()()
			for b.Loop() {
				b.StopTimer()
				if err := srv.Load(configMaps, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
					Namespace: "default", Name: "cm-" + srv.RV()}}); err != nil {
					b.Fatal(err)
				}
				srv.Compact()
				lists := srv.Counts(pods).Lists
				b.StartTimer()
				stop := run()
				b.StopTimer()
				if srv.Counts(pods).Lists == lists {
					b.Fatal("nothing was listed")
				}
				stop()
				b.StartTimer()
			}
		})
	}
}
