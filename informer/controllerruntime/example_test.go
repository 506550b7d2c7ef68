package controllerruntime_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/informer/controllerruntime"
	"github.com/larder-dev/larder/internal/fakeapi"
	"github.com/larder-dev/larder/store"
)

var pods = corev1.SchemeGroupVersion.WithResource("pods")

func countPods(cfg *rest.Config, path string) (n int, err error) {
	st, err := store.Open(path, store.Options{})
	if err != nil {
		return 0, err
	}
	defer st.Close() // the manager has stopped before the store is closed
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{
		NewCache: controllerruntime.NewCache(informer.Options{Store: st}), // the line to add to a program
		Metrics:  server.Options{BindAddress: "0"},
	})
	if err != nil {
		return 0, err
	}
	ctx, stop := context.WithCancel(context.Background())
	stopped := make(chan error, 1)
	go func() { stopped <- mgr.Start(ctx) }()
	defer func() { stop(); err = errors.Join(err, <-stopped) }()

	<-mgr.Elected() // Elected is closed when the manager's Start has begun
	var list corev1.PodList
	if !mgr.GetCache().WaitForCacheSync(ctx) {
		return 0, ctx.Err()
	}
	if err := mgr.GetClient().List(ctx, &list); err != nil {
		return 0, err
	}
	return len(list.Items), nil
}

// The cache of a manager survives its process: the second run lists nothing.
func Example() {
	api := fakeapi.New(fakeapi.Options{}) // stands for any API server
	if err := api.Start(); err != nil {
		log.Fatal(err)
	}
	defer api.Stop()
	for i := range 3 {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("pod-%d", i)}}
		if err := api.Load(pods, pod); err != nil {
			log.Fatal(err)
		}
	}
	dir, err := os.MkdirTemp("", "larder")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	for range 2 {
		api.ResetCounts()
		n, err := countPods(api.Config(), filepath.Join(dir, "larder.db"))
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%d pods, %d LIST\n", n, api.Counts(pods).Lists)
	}
	// Output:
	// 3 pods, 1 LIST
	// 3 pods, 0 LIST
}
