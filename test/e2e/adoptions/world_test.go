package adoptions

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/larder-dev/larder/test/e2e/controlplane"
)

var (
	namespaces  = corev1.SchemeGroupVersion.WithResource("namespaces")
	definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1",
		Resource: "customresourcedefinitions"}
)

// world creates and changes objects in one namespace of the API server. The audit log omits the requests of world's
// client.
type world struct {
	t         *testing.T
	client    dynamic.Interface
	namespace string
	source    string
	logs      string
}

func newWorld(t *testing.T, source string) *world {
	t.Helper()
	client, err := dynamic.NewForConfig(server.Config(controlplane.Writer))
	if err != nil {
		t.Fatal(err)
	}
	return &world{t: t, client: client, source: source, logs: server.Dir()}
}

func (w world) in(t *testing.T) *world {
	t.Helper()
	w.t = t
	made := w.create(namespaces, `
apiVersion: v1
kind: Namespace
metadata: {generateName: adoption-, labels: {deschedule: "yes"}}`)
	w.namespace = made.GetName()
	return &w
}

// define creates a custom resource definition from a file of the program's source, unless it exists. It waits until the
// API server serves the resource.
func (w *world) define(path string, gvr schema.GroupVersionResource) {
	w.t.Helper()
	text, err := os.ReadFile(filepath.Join(w.source, path))
	if err != nil {
		w.t.Fatal(err)
	}
	crd := w.parse(string(text))
	_, err = w.client.Resource(definitions).Create(w.t.Context(), crd, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		w.t.Fatal(err)
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		_, err := w.client.Resource(gvr).List(w.t.Context(), metav1.ListOptions{})
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("%s are not served: %v", gvr.Resource, err)
		}
	}
}

func (w *world) parse(text string) *unstructured.Unstructured {
	w.t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
		w.t.Fatalf("%v in\n%s", err, text)
	}
	return u
}

func (w *world) objects(gvr schema.GroupVersionResource) dynamic.ResourceInterface {
	switch gvr.Resource {
	case "namespaces", "nodes":
		return w.client.Resource(gvr)
	}
	return w.client.Resource(gvr).Namespace(w.namespace)
}

func (w *world) create(gvr schema.GroupVersionResource, format string, args ...any) *unstructured.Unstructured {
	w.t.Helper()
	made, err := w.objects(gvr).Create(w.t.Context(), w.parse(fmt.Sprintf(format, args...)), metav1.CreateOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return made
}

func (w *world) patch(gvr schema.GroupVersionResource, name, patch string, subresources ...string) {
	w.t.Helper()
	_, err := w.objects(gvr).Patch(w.t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{},
		subresources...)
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) delete(gvr schema.GroupVersionResource, name string) {
	w.t.Helper()
	now := metav1.DeleteOptions{GracePeriodSeconds: new(int64)}
	if err := w.objects(gvr).Delete(w.t.Context(), name, now); err != nil && !apierrors.IsNotFound(err) {
		w.t.Fatal(err)
	}
}

func (w *world) get(gvr schema.GroupVersionResource, name string) (*unstructured.Unstructured, error) {
	u, err := w.objects(gvr).Get(w.t.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return u, err
}

// replicas returns an error unless the named object has want replicas in its spec. If want is -1, the object must not
// exist.
func (w *world) replicas(gvr schema.GroupVersionResource, name string, want int64) error {
	u, err := w.get(gvr, name)
	switch {
	case err != nil:
		return err
	case u == nil && want < 0:
		return nil
	case u == nil:
		return fmt.Errorf("there is no %s in %s", name, gvr.Resource)
	case want < 0:
		return fmt.Errorf("%s is in %s, and its owner is gone", name, gvr.Resource)
	}
	got, _, err := unstructured.NestedInt64(u.Object, "spec", "replicas")
	if err == nil && got != want {
		err = fmt.Errorf("%s has %d replicas, want %d", name, got, want)
	}
	return err
}

func (w *world) file(name, text string) string {
	w.t.Helper()
	path := filepath.Join(w.t.TempDir(), name)
	if err := os.WriteFile(path, []byte(strings.TrimSpace(text)), 0o600); err != nil {
		w.t.Fatal(err)
	}
	return path
}
