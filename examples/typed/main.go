// Command typed follows the pattern of kubernetes/sample-controller, with informers that survive restarts. It maintains
// a ConfigMap with a summary of every Deployment, with a typed shared informer factory, listers and a workqueue.
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

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/informer/factory"
	"github.com/larder-dev/larder/store"
)

func main() {
	kubeconfig := flag.String("kubeconfig", os.Getenv("KUBECONFIG"),
		"`file` with the cluster's address and credentials; none in a pod")
	storePath := flag.String("store", "typed.db", "`file` that the caches live in")
	offline := flag.Bool("offline", false, "work on what is stored until the API server can be reached")
	flag.Parse()
	slog.SetDefault(slog.New(slog.NewJSONHandler(os.Stdout, nil)))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *kubeconfig, *storePath, *offline); err != nil {
		fmt.Fprintln(os.Stderr, "typed:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, kubeconfig, storePath string, offline bool) error {
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return err
	}

	// Run opens the store, and closes it after the informers have ended. A killed process does not close it, which does no
	// harm.
	return informer.Run(ctx, storePath, store.Options{}, func(ctx context.Context, s *informer.Session) error {
		o := informer.Options{Store: s.Store}
		if offline {
			o.SyncPolicy = informer.Disk
		}
		// The only changed line; it was: f := informers.NewSharedInformerFactory(client, 10*time.Minute)
		f, err := factory.NewSharedInformerFactory(client, 10*time.Minute, factory.Options{Informer: o}, &appsv1.Deployment{},
			&corev1.ConfigMap{})
		if err != nil {
			return err
		}
		c, err := newController(client, f.Apps().V1().Deployments(), f.Core().V1().ConfigMaps())
		if err != nil {
			return err
		}
		s.StartFactories(f)
		c.run(ctx, 2)
		return nil
	})
}
