// Command dynamic is a controller for a custom resource without Go types. It maintains status.area of every Widget,
// with a dynamic informer factory and a workqueue. Its informer survives restarts.
//
// Only a few lines in run, about the store and the factory, differ from a controller on client-go's informers. Each
// reconcile prints a line of JSON on standard output.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/informer/factory"
	"github.com/larder-dev/larder/store"
)

func main() {
	kubeconfig := flag.String("kubeconfig", os.Getenv("KUBECONFIG"),
		"`file` with the cluster's address and credentials; none in a pod")
	storePath := flag.String("store", "dynamic.db", "`file` that the caches live in")
	flag.Parse()
	slog.SetDefault(slog.New(slog.NewJSONHandler(os.Stdout, nil)))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *kubeconfig, *storePath); err != nil {
		fmt.Fprintln(os.Stderr, "dynamic:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, kubeconfig, storePath string) error {
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return err
	}
	// RESTClient detects changes of the CRD's schema. A new default changes Widgets, but not their resourceVersions.
	schemas, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		return err
	}

	// Run opens the store, and closes it after the informers have ended. A killed process does not close it, which does no
	// harm.
	return informer.Run(ctx, storePath, store.Options{}, func(ctx context.Context, s *informer.Session) error {
		// The only changed line; it was: f := dynamicinformer.NewDynamicSharedInformerFactory(client, 10*time.Minute)
		f := factory.NewDynamicSharedInformerFactory(client, 10*time.Minute, factory.Options{
			Informer: informer.Options{Store: s.Store}, RESTClient: schemas.RESTClient(),
		})
		c, err := newController(client, f.ForResource(widgets))
		if err != nil {
			return err
		}
		s.StartFactories(f)
		c.run(ctx, 2)
		return nil
	})
}
