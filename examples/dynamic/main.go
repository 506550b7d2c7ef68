// Command dynamic is a controller on a custom resource without Go types: it keeps status.area of every Widget, through
// a dynamic informer factory and a workqueue. Its informer survives restarts.
//
// Nothing but run's few lines about the store and the factory differs from a controller on client-go's informers.
// Each reconcile is a line of JSON on standard output.
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
	// So that a default that is added to the CRD is noticed: it changes Widgets, but not their resourceVersions.
	schemas, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		return err
	}

	// Run opens the store, and closes it when the informers have ended. A process that is killed closes nothing; that is
	// fine too.
	return informer.Run(ctx, storePath, store.Options{}, func(ctx context.Context, s *informer.Session) error {
		// The one line that changes; it was: f := dynamicinformer.NewDynamicSharedInformerFactory(client, 10*time.Minute)
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
