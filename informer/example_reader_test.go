package informer_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/informer/requests"
	"github.com/larder-dev/larder/store"
	"github.com/larder-dev/larder/store/query"
)

// With Residency None the pods stay on disk, not in memory. Each read decodes only the pods that it returns.
func ExampleInformer_Reader() {
	server, clientset := exampleCluster()
	defer server.Stop()
	pods := corev1.SchemeGroupVersion.WithResource("pods")
	for name, zone := range map[string]string{"web-2": "eu-west-1", "web-3": "eu-west-2", "db-1": "us-east-1"} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name,
			Labels: map[string]string{"app": name[:len(name)-2], "zone": zone}}}
		if err := server.Load(pods, pod); err != nil {
			log.Fatal(err)
		}
	}
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
	client := clientset.CoreV1().RESTClient()
	id := entry.Identity{GroupVersionResource: pods}
	inf, err := informer.New(requests.ListWatch(client, id), &corev1.Pod{}, informer.Options{
		Store: st, Identity: id, Residency: store.None,
		Indexers: cache.Indexers{"zone": func(obj any) ([]string, error) {
			return []string{obj.(*corev1.Pod).Labels["zone"]},
				nil
		}},
	})
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); inf.RunWithContext(ctx) }()
	cache.WaitForCacheSync(ctx.Done(), inf.HasSynced)

	r := inf.Reader()
	err = r.Each(ctx, query.Query{Namespace: "shop", Labels: labels.SelectorFromSet(labels.Set{"app": "web"})},
		func(key string, _ runtime.Object) error {
			fmt.Println("app=web:", key)
			return nil
		})
	if err != nil {
		log.Fatal(err)
	}
	zone, err := r.ByIndex(ctx, "zone", "eu-west-1")
	if err != nil {
		log.Fatal(err)
	}
	for _, obj := range zone {
		fmt.Println("in eu-west-1:", obj.(*corev1.Pod).Name)
	}
	first, err := r.Select(ctx, query.Query{Limit: 2}) // the key of a page's last pod selects the next page
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("the first page:", first[0].(*corev1.Pod).Name, first[1].(*corev1.Pod).Name)
	cancel()
	<-done
	// Output:
	// app=web: shop/web-2
	// app=web: shop/web-3
	// in eu-west-1: web-2
	// the first page: db-1 web-2
}
