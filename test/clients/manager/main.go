// Command manager is an ordinary controller-runtime manager that knows nothing of Larder. It elects a leader, caches
// Tasks, and writes the length of a Task's text into the Task's status. Its kubeconfig decides which server it uses.
package main

import (
	"context"
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

func main() {
	ctrl.SetLogger(klog.NewKlogr())
	if err := run(ctrl.SetupSignalHandler()); err != nil {
		fmt.Fprintln(os.Stderr, "manager:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	config.UserAgent = "manager"
	m, err := ctrl.NewManager(config, ctrl.Options{
		LeaderElection: true, LeaderElectionID: "manager", LeaderElectionNamespace: "default",
		Metrics: metricsserver.Options{BindAddress: "0"},
		// The client reads Tasks from the cache although they are unstructured.
		Client: client.Options{Cache: &client.CacheOptions{Unstructured: true}},
	})
	if err != nil {
		return err
	}
	tasks := ctrl.NewControllerManagedBy(m).Named("tasks").For(newTask())
	if err := tasks.Complete(&reconciler{m.GetClient()}); err != nil {
		return err
	}
	return m.Start(ctx)
}

func newTask() *unstructured.Unstructured {
	task := &unstructured.Unstructured{}
	task.SetGroupVersionKind(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Task"})
	return task
}

type reconciler struct{ client.Client }

func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	task := newTask()
	if err := r.Get(ctx, request.NamespacedName, task); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	text, _, err := unstructured.NestedString(task.Object, "spec", "text")
	if err != nil {
		return ctrl.Result{}, err
	}
	if had, found, _ := unstructured.NestedInt64(task.Object, "status", "length"); found && had == int64(len(text)) {
		return ctrl.Result{}, nil
	}
	if err := unstructured.SetNestedField(task.Object, int64(len(text)), "status", "length"); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, r.Status().Update(ctx, task)
}
