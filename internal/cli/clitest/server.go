package clitest

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/fakeapi"
)

func StartServer(t *testing.T) *fakeapi.Server {
	t.Helper()
	server := fakeapi.New(fakeapi.Options{})
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	return server
}

func CreatePod(
	t *testing.T, server *fakeapi.Server, namespace, name string, labels map[string]string,
) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod", "spec": map[string]any{}}}
	u.SetNamespace(namespace)
	u.SetName(name)
	u.SetLabels(labels)
	created, err := server.Create(Pods.GroupVersionResource, u)
	if err != nil {
		t.Fatal(err)
	}
	return created
}

func PodsOf(namespace, labels, fields string) entry.Identity {
	return entry.Identity{
		GroupVersionResource: Pods.GroupVersionResource, Namespace: namespace, LabelSelector: labels, FieldSelector: fields,
		Representation: entry.Unstructured,
	}
}
