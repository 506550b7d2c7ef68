package informer_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/informer/durable"
	"github.com/larder-dev/larder/informer/requests"
	"github.com/larder-dev/larder/store"
	"github.com/larder-dev/larder/store/consumer"
)

// The second run delivers exactly the changes since the first one, including the delete.
func ExampleInformer_Durable() {
	server, clientset := exampleCluster()
	defer server.Stop()
	dir, err := os.MkdirTemp("", "larder-example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	pods := corev1.SchemeGroupVersion.WithResource("pods")

	run := func(n int) {
		st, err := store.Open(filepath.Join(dir, "larder.db"), store.Options{})
		if err != nil {
			log.Fatal(err)
		}
		defer st.Close()
		client := clientset.CoreV1().RESTClient()
		id := entry.Identity{GroupVersionResource: pods}
		inf, err := informer.New(requests.ListWatch(client, id), &corev1.Pod{}, informer.Options{Store: st, Identity: id})
		if err != nil {
			log.Fatal(err)
		}
		handler, err := inf.Durable().Add("mailer", durable.Handler{
			OnChange: func(_ context.Context, c consumer.Change) error {
				fmt.Printf("run %d: %s %s\n", n, c.Type, c.Key)
				return nil // a nil error acknowledges the change
			},
		})
		if err != nil {
			log.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() { defer close(done); inf.RunWithContext(ctx) }()
		cache.WaitForCacheSync(ctx.Done(), handler.HasSynced)
		cancel()
		<-done
	}
	run(1)
	if err := server.Load(pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "web-2"}}); err != nil {
		log.Fatal(err)
	}
	if err := server.Delete(pods, "web", "web-1"); err != nil {
		log.Fatal(err)
	}
	run(2)
	// Unordered output:
	// run 1: Upsert web/web-1
	// run 2: Delete web/web-1
	// run 2: Upsert web/web-2
}
