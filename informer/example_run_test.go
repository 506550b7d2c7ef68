package informer_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/informer/requests"
	"github.com/larder-dev/larder/store"
)

// Run stops the informers first, and then closes the store.
func ExampleRun() {
	server, clientset := exampleCluster()
	defer server.Stop()
	dir, err := os.MkdirTemp("", "larder-example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	path := filepath.Join(dir, "larder.db")
	err = informer.Run(context.Background(), path, store.Options{}, func(ctx context.Context, s *informer.Session) error {
		pods, err := podInformer(clientset, s.Store)
		if err != nil {
			return err
		}
		s.Start(pods)
		if !cache.WaitForCacheSync(ctx.Done(), pods.HasSynced) {
			return errors.New("the pods have not synced")
		}
		fmt.Println(pods.GetStore().ListKeys())
		return nil // a controller would work here until ctx ends
	})
	fmt.Println(err)
	// Output:
	// [web/web-1]
	// <nil>
}

// One function makes the informer of the program. Unit tests call that function with a fake clientset, and keep the
// pods in memory.
func ExampleClientListWatch() {
	client := fake.NewClientset(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "web-1"}})
	pods, err := podInformer(client, nil)
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); pods.RunWithContext(ctx) }()
	cache.WaitForCacheSync(ctx.Done(), pods.HasSynced)
	fmt.Println(pods.GetStore().ListKeys())
	cancel()
	<-done
	// Output: [web/web-1]
}

// podInformer returns an informer that keeps the pods in st, or in memory if st is nil.
func podInformer(client kubernetes.Interface, st *store.Store) (*informer.Informer, error) {
	id := entry.Identity{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("pods")}
	return informer.New(requests.ClientListWatch(client.CoreV1().Pods(""), id), &corev1.Pod{}, informer.Options{
		Store: st, InMemory: st == nil, Identity: id,
	})
}
