package clients

import (
	"fmt"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/larder-dev/larder/test/e2e/controlplane"
)

var (
	tasks       = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "tasks"}
	definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1",
		Resource: "customresourcedefinitions"}
)

// TestManager runs a controller-runtime manager through sync --serve --forward, with leader election by a Lease and
// writes of status. The API server must see the writes under the manager's user, and no list or watch of mirrored
// resources.
func TestManager(t *testing.T) {
	path := program(t, "manager")
	client := writer(t)
	dynamicClient, err := dynamic.NewForConfig(site.Server.Config(controlplane.Writer))
	if err != nil {
		t.Fatal(err)
	}
	defineTasks(t, dynamicClient)
	m := mirror(t, "manager", []string{"tasks.example.com"}, "--forward")
	token := account(t, client, "default", "manager",
		rule("example.com", "tasks", "get", "list", "watch"), rule("example.com", "tasks/status", "update"),
		rule("coordination.k8s.io", "leases", "get", "create", "update"), rule("events.k8s.io", "events", "create", "patch"))
	mark, err := site.Server.Mark()
	if err != nil {
		t.Fatal(err)
	}
	in := dynamicClient.Resource(tasks).Namespace("default")
	write(t, in, "before", "four")
	p := start(t, path, []string{"KUBECONFIG=" + kubeconfig(t, m, token)})
	hasLength := func(name string, want int64) {
		t.Helper()
		eventually(t, fmt.Sprintf("Task %s has length %d", name, want), func() error {
			task, err := in.Get(t.Context(), name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if got, _, _ := unstructured.NestedInt64(task.Object, "status", "length"); got != want {
				return fmt.Errorf("it has %d", got)
			}
			return nil
		}, p)
	}
	hasLength("before", 4)
	lease, err := client.CoordinationV1().Leases("default").Get(t.Context(), "manager", metav1.GetOptions{})
	if err != nil || lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" {
		t.Errorf("the manager has written no Lease: %v, %v", lease, err)
	}
	write(t, in, "live", "seven s")
	hasLength("live", 7)
	m.Kill()
	write(t, in, "away", "12345678")
	restart(t, m)
	hasLength("away", 8)
	write(t, in, "back", "123456789")
	hasLength("back", 9)

	requests, err := site.Server.Requests("manager", mark)
	if err != nil {
		t.Fatal(err)
	}
	statuses := 0
	for _, r := range requests {
		if r.User != "system:serviceaccount:default:manager" {
			t.Errorf("the manager is %s upstream: %s", r.User, r)
		}
		if r.Resource == "tasks" && (r.Verb == "get" || r.Verb == "list" || r.Verb == "watch") {
			t.Errorf("what is mirrored was asked for upstream: %s", r)
		}
		if r.Verb == "update" && strings.HasSuffix(r.Path, "/status") {
			statuses++
		}
	}
	if statuses < 4 {
		t.Errorf("%d updates of a status by the manager", statuses)
	}
}

func rule(group, resource string, verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs}
}

func defineTasks(t *testing.T, client dynamic.Interface) {
	t.Helper()
	object := map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}
	crd := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": "tasks.example.com"},
		"spec": map[string]any{
			"group": "example.com", "scope": "Namespaced",
			"names": map[string]any{"plural": "tasks", "singular": "task", "kind": "Task", "listKind": "TaskList"},
			"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": object}, "subresources": map[string]any{"status": map[string]any{}}}},
		},
	}}
	if _, err := client.Resource(definitions).Create(t.Context(), crd, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "Tasks are served", func() error {
		_, err := client.Resource(tasks).List(t.Context(), metav1.ListOptions{})
		return err
	})
}

func write(t *testing.T, in dynamic.ResourceInterface, name, text string) {
	t.Helper()
	task := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Task",
		"metadata": map[string]any{"name": name}, "spec": map[string]any{"text": text}}}
	if _, err := in.Create(t.Context(), task, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}
