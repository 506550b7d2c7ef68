package field

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"

	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/informer/factory"
	"github.com/larder-dev/larder/store"
)

var definitions = schema.GroupVersionResource{
	Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// custom is a namespaced custom resource with the versions v1, the storage version, and v2.
type custom struct {
	*testing.T
	client dynamic.Interface
	group  string
}

func newCustom(t *testing.T, group string) *custom {
	t.Helper()
	client, err := dynamic.NewForConfig(apiServer{}.Config())
	c := &custom{T: t, client: client, group: group + ".example.com"}
	c.must(err)
	c.define()
	t.Cleanup(func() {
		err := client.Resource(definitions).Delete(context.Background(), c.name(), metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			t.Error(err)
		}
	})
	return c
}

func (c *custom) must(err error) {
	c.Helper()
	if err != nil {
		c.Fatal(err)
	}
}

func (c *custom) name() string { return "things." + c.group }

func (c *custom) resource(version string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: c.group, Version: version, Resource: "things"}
}

func (c *custom) define() {
	c.Helper()
	var versions []any
	for _, name := range []string{"v1", "v2"} {
		versions = append(versions, map[string]any{"name": name, "served": true, "storage": name == "v1",
			"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object"}}})
	}
	_, err := c.client.Resource(definitions).Create(c.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": c.name()},
		"spec": map[string]any{"group": c.group, "scope": "Namespaced", "versions": versions,
			"names": map[string]any{"plural": "things", "singular": "thing", "kind": "Thing"}},
	}}, metav1.CreateOptions{})
	c.must(err)
	c.eventually("the resource is not served", func() bool {
		_, err := c.client.Resource(c.resource("v2")).List(c.Context(), metav1.ListOptions{})
		return err == nil
	})
}

func (c *custom) undefine() {
	c.Helper()
	c.must(c.client.Resource(definitions).Delete(c.Context(), c.name(), metav1.DeleteOptions{}))
	c.eventually("the resource is still served", func() bool {
		_, err := c.client.Resource(c.resource("v1")).List(c.Context(), metav1.ListOptions{})
		_, there := c.client.Resource(definitions).Get(c.Context(), c.name(), metav1.GetOptions{})
		return apierrors.IsNotFound(err) && apierrors.IsNotFound(there)
	})
}

func (c *custom) convert(strategy string) {
	c.Helper()
	_, err := c.client.Resource(definitions).Patch(
		c.Context(), c.name(), types.MergePatchType, []byte(`{"spec":{"conversion":`+strategy+`}}`), metav1.PatchOptions{})
	c.must(err)
}

func (c *custom) create(name string) {
	c.Helper()
	c.eventually("the object is not created", func() bool {
		_, err := c.client.Resource(c.resource("v1")).Namespace("default").Create(c.Context(), &unstructured.Unstructured{
			Object: map[string]any{"apiVersion": c.group + "/v1", "kind": "Thing", "metadata": map[string]any{"name": name}},
		}, metav1.CreateOptions{})
		return err == nil || apierrors.IsAlreadyExists(err)
	})
}

func (c *custom) run(path, version string) (_ informers.GenericInformer, i *informer.Informer, stop func()) {
	c.Helper()
	st, err := store.Open(path, store.Options{})
	c.must(err)
	f := factory.NewDynamicSharedInformerFactory(c.client, 0, factory.Options{
		Informer: informer.Options{Store: st}, Config: apiServer{}.Config()})
	generic := f.ForResource(c.resource(version))
	i, err = informer.Of(generic.Informer())
	c.must(err)
	ended := make(chan struct{})
	f.Start(ended)
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		close(ended)
		f.Shutdown()
		c.must(st.Close())
	}
	c.Cleanup(stop)
	return generic, i, stop
}

func (c *custom) holds(i informers.GenericInformer, want ...string) {
	c.Helper()
	c.eventually(fmt.Sprintf("the informer does not hold %q", want), func() bool {
		all, err := i.Lister().List(labels.Everything())
		c.must(err)
		var names []string
		for _, obj := range all {
			names = append(names, obj.(metav1.Object).GetName())
		}
		slices.Sort(names)
		return slices.Equal(names, want)
	})
}

func (c *custom) eventually(problem string, done func() bool) {
	c.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !done(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			c.Fatal(problem)
		}
	}
}

// TestDefinitionIsGone checks that an informer survives the deletion and re-creation of a CustomResourceDefinition
// (rancher/rancher#35054, kubernetes/kube-state-metrics#2223, argoproj/argo-cd#1247).
func TestDefinitionIsGone(t *testing.T) {
	c := newCustom(t, "gone")
	c.create("x")
	path := filepath.Join(t.TempDir(), "s.db")
	running, i, stop := c.run(path, "v1")
	c.holds(running, "x")
	c.undefine()
	c.eventually("the status does not name the error", func() bool {
		s := i.Status()
		if s.Reflector.ListOnly {
			t.Fatalf("status says that the resource is listed: %v", s.Err)
		}
		return apierrors.IsNotFound(s.Err)
	})
	c.define()
	c.create("y")
	c.holds(running, "y")
	stop()
	c.undefine()
	c.define()
	c.create("z")
	running, _, _ = c.run(path, "v1")
	c.holds(running, "z")
}

// TestConversionFails checks an informer whose conversion webhook does not answer (argoproj/argo-cd#25305, #20828,
// rancher/rancher#48384). The stored objects must stay, even over a restart, and the informer must continue when the
// webhook answers. Informers of the storage version must not be affected.
func TestConversionFails(t *testing.T) {
	c := newCustom(t, "conversion")
	c.create("x")
	path, other := filepath.Join(t.TempDir(), "s.db"), filepath.Join(t.TempDir(), "other.db")
	converted, i, stop := c.run(path, "v2")
	stored, _, _ := c.run(other, "v1")
	c.holds(converted, "x")
	c.holds(stored, "x")
	c.convert(`{"strategy":"Webhook","webhook":{"conversionReviewVersions":["v1"],
		"clientConfig":{"url":"https://127.0.0.1:1/convert"}}}`)
	c.eventually("the status does not name the webhook", func() bool {
		return i.Status().Err != nil && strings.Contains(i.Status().Err.Error(), "conversion webhook")
	})
	c.create("y")
	c.holds(stored, "x", "y")
	c.holds(converted, "x")
	stop()
	converted, _, _ = c.run(path, "v2")
	c.holds(converted, "x")
	c.convert(`{"strategy":"None","webhook":null}`)
	c.holds(converted, "x", "y")
}
