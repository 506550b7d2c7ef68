package informer_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/informer/requests"
	"github.com/larder-dev/larder/store"
)

// Generated informer factories (externalversions) have InformerFor, like client-go's factory, which stands for a
// generated factory here. The first call of InformerFor for a type decides how its informer is made.
func ExampleRefused() {
	server, clientset := exampleCluster()
	defer server.Stop()
	dir, err := os.MkdirTemp("", "larder-example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	st, err := store.Open(filepath.Join(dir, "larder.db"), store.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer st.Close()

	// A real program calls NewSharedInformerFactory of its generated package externalversions.
	f := informers.NewSharedInformerFactory(clientset, 10*time.Minute)
	defer f.Shutdown()
	f.InformerFor(&corev1.Pod{}, func(client kubernetes.Interface, resync time.Duration) cache.SharedIndexInformer {
		id := entry.Identity{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("pods")}
		inf, err := informer.New(requests.ClientListWatch(client.CoreV1().Pods(""), id), &corev1.Pod{}, informer.Options{
			Store:        st,
			Identity:     id,
			ResyncPeriod: resync,
			// Generated listers need the index by namespace.
			Indexers:    cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc},
			ClusterID:   requests.KubeSystemUID(client.Discovery().RESTClient()),
			OpenAPIHash: requests.OpenAPIHash(client.Discovery().RESTClient(), id.GroupVersion()),
		})
		if err != nil {
			// The returned informer's methods fail with err, and it never syncs.
			return informer.Refused(&corev1.Pod{}, err)
		}
		return inf
	})

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	pods := f.Core().V1().Pods().Lister()
	f.StartWithContext(ctx)
	f.WaitForCacheSync(ctx.Done())
	all, err := pods.List(labels.Everything())
	fmt.Println(len(all), err)
	// Output: 1 <nil>
}
