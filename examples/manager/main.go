// Command manager is a controller-runtime manager whose caches survive restarts. It has two reconcilers, in two
// namespaces (--namespaces):
//
//   - restarter writes the resourceVersions of a Deployment's Secrets into its pod template, so that a changed Secret
//     starts a rollout.
//   - users maintains a ConfigMap "<secret>-users" with the names of Deployments that mount a Secret.
//
// Both find Deployments by an index on mounted Secrets, and watch only the metadata of Secrets.
//
// Only the store, NewCache and MapperProvider differ from a manager on controller-runtime's own cache. Each reconcile
// prints a line of JSON on standard output.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/informer/controllerruntime"
	"github.com/larder-dev/larder/store"
)

func main() {
	// controller-runtime defines --kubeconfig.
	storePath := flag.String("store", "manager.db", "`file` that the caches live in")
	namespaces := flag.String("namespaces", "default", "`names` of the namespaces, with commas")
	offline := flag.Bool("offline", false, "work on what is stored until the API server can be reached")
	flag.Parse()
	slog.SetDefault(slog.New(slog.NewJSONHandler(os.Stdout, nil)))
	ctrl.SetLogger(klog.NewKlogr())
	if err := run(ctrl.SetupSignalHandler(), *storePath, strings.Split(*namespaces, ","), *offline); err != nil {
		fmt.Fprintln(os.Stderr, "manager:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, storePath string, namespaces []string, offline bool) (err error) {
	cfg, err := ctrl.GetConfig()
	if err != nil {
		return err
	}

	// Close the store last, after the manager has ended. A killed process does not close it, which does no harm.
	st, err := store.Open(storePath, store.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()

	// PersistSecrets stores Secrets in the file. Without it they stay in memory, even their metadata alone, because
	// annotations may contain data.
	o := informer.Options{Store: st, PersistSecrets: true, TransformVersion: "dropLastApplied 1"}
	if offline {
		o.SyncPolicy = informer.Disk
	}

	mgr, err := ctrl.NewManager(cfg, ctrl.Options{
		// NewCache selects Larder's cache, and MapperProvider a RESTMapper that lets the manager start without an API
		// server.
		NewCache:       controllerruntime.NewCache(o),
		MapperProvider: controllerruntime.MapperProvider(st),
		Cache: cache.Options{
			DefaultNamespaces: configs(namespaces),
			// The transform runs before objects are stored. Change TransformVersion whenever it changes.
			ByObject: map[client.Object]cache.ByObject{&corev1.Secret{}: {Transform: dropLastApplied}},
		},
		Metrics: metricsserver.Options{BindAddress: "0"},
	})
	if err != nil {
		return err
	}
	if err := indexBySecret(ctx, mgr); err != nil {
		return err
	}
	if err := (&restarter{mgr.GetClient()}).setup(mgr); err != nil {
		return err
	}
	if err := (&users{mgr.GetClient()}).setup(mgr); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

func configs(namespaces []string) map[string]cache.Config {
	all := map[string]cache.Config{}
	for _, ns := range namespaces {
		all[ns] = cache.Config{}
	}
	return all
}

// dropLastApplied removes the annotation in which kubectl apply keeps a copy of the Secret, including its data.
func dropLastApplied(obj any) (any, error) {
	accessor, err := meta.Accessor(obj)
	if err != nil {
		return nil, err
	}
	annotations := accessor.GetAnnotations()
	delete(annotations, corev1.LastAppliedConfigAnnotation)
	accessor.SetAnnotations(annotations)
	return obj, nil
}
