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

func listOffline(cfg *rest.Config, path string) (names []string, err error) {
	st, err := store.Open(path, store.Options{})
	if err != nil {
		return nil, err
	}
	defer st.Close() // the manager has stopped before the store is closed
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{
		NewCache:       controllerruntime.NewCache(informer.Options{Store: st, SyncPolicy: informer.Disk}),
		MapperProvider: controllerruntime.MapperProvider(st),
		Metrics:        server.Options{BindAddress: "0"},
	})
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	stopped := make(chan error, 1)
	go func() { stopped <- mgr.Start(ctx) }()
	defer func() { stop(); err = errors.Join(err, <-stopped) }()

	<-mgr.Elected() // Elected is closed when the manager's Start has begun
	var list corev1.PodList
	if err := mgr.GetClient().List(ctx, &list); err != nil {
		return nil, err
	}
	for _, pod := range list.Items {
		names = append(names, pod.Name)
	}
	return names, nil
}

// The API server is down in the second run of the manager, which starts nevertheless.
func Example_offline() {
	api := fakeapi.New(fakeapi.Options{})
	if err := api.Start(); err != nil {
		log.Fatal(err)
	}
	if err := api.Load(pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pod-0"}}); err != nil {
		log.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "larder")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	for range 2 {
		names, err := listOffline(api.Config(), filepath.Join(dir, "larder.db"))
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(names)
		api.Stop()
	}
	// Output:
	// [pod-0]
	// [pod-0]
}
