package informer_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/informer/requests"
	"github.com/larder-dev/larder/internal/fakeapi"
	"github.com/larder-dev/larder/store"
)

// The first run lists the pods. The second run has no server, and serves the pods from disk.
func ExampleNew() {
	server, clientset := exampleCluster()
	dir, err := os.MkdirTemp("", "larder-example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	run := func() {
		st, err := store.Open(filepath.Join(dir, "larder.db"), store.Options{})
		if err != nil {
			log.Fatal(err)
		}
		defer st.Close()
		client := clientset.CoreV1().RESTClient()
		id := entry.Identity{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("pods")}
		inf, err := informer.New(requests.ListWatch(client, id), &corev1.Pod{}, informer.Options{
			Store:    st,
			Identity: id,
			// ClusterID notices that the address leads to another cluster.
			ClusterID: requests.KubeSystemUID(client),
			// OpenAPIHash notices a changed schema of the resource.
			OpenAPIHash: requests.OpenAPIHash(client, corev1.SchemeGroupVersion),
			// With Disk, HasSynced is true with the stored objects.
			SyncPolicy: informer.Disk,
		})
		if err != nil {
			log.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() { defer close(done); inf.RunWithContext(ctx) }()
		cache.WaitForCacheSync(ctx.Done(), inf.HasSynced)
		fmt.Println(inf.GetStore().ListKeys())
		cancel()
		<-done
	}
	run()
	server.Stop()
	run()
	// Output:
	// [web/web-1]
	// [web/web-1]
}

func exampleCluster() (*fakeapi.Server, kubernetes.Interface) {
	server := fakeapi.New(fakeapi.Options{})
	if err := server.Start(); err != nil {
		log.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(server.Config())
	if err != nil {
		log.Fatal(err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "web-1"}}
	if err := server.Load(corev1.SchemeGroupVersion.WithResource("pods"), pod); err != nil {
		log.Fatal(err)
	}
	return server, client
}
