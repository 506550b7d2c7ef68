package e2e

import (
	"context"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/informer/factory"
	"github.com/larder-dev/larder/store"
)

var definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1",
	Resource: "customresourcedefinitions"}

// engines is a custom resource whose schema gets a new default. Its objects keep their UIDs and resourceVersions.
type engines struct {
	*cluster
	client dynamic.Interface
	gvr    schema.GroupVersionResource
}

func defineEngines(t *testing.T, c *cluster, group string, size int) *engines {
	t.Helper()
	client, err := dynamic.NewForConfig(c.Config(writer))
	if err != nil {
		t.Fatal(err)
	}
	e := &engines{cluster: c, client: client, gvr: schema.GroupVersionResource{Group: group, Version: "v1",
		Resource: "engines"}}
	crd := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": "engines." + group},
		"spec": map[string]any{
			"group": group, "scope": "Namespaced",
			"names":    map[string]any{"plural": "engines", "singular": "engine", "kind": "Engine"},
			"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true, "schema": schemaOf("")}},
		},
	}}
	if _, err := client.Resource(definitions).Create(t.Context(), crd, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	ctx := context.WithoutCancel(t.Context())
	t.Cleanup(func() { // other tests must not see the resource
		if err := client.Resource(definitions).Delete(ctx, crd.GetName(), metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	eventually(t, "the resource is served", func() string {
		if _, err := client.Resource(e.gvr).List(t.Context(), metav1.ListOptions{}); err != nil {
			return err.Error()
		}
		return ""
	})
	for _, name := range e.names() {
		u := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": e.gvr.GroupVersion().String(), "kind": "Engine",
			"metadata": map[string]any{"name": name}, "spec": map[string]any{"body": strings.Repeat("x", size)},
		}}
		if _, err := client.Resource(e.gvr).Namespace(c.ns).Create(t.Context(), u, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	return e
}

func (e *engines) names() []string { return names("engine", 0, 20) }

// schemaOf returns an OpenAPI schema in which spec.fuel has this default, or no default for "".
func schemaOf(fuel string) map[string]any {
	field := map[string]any{"type": "string"}
	if fuel != "" {
		field["default"] = fuel
	}
	return map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "properties": map[string]any{
		"spec": map[string]any{"type": "object", "properties": map[string]any{
			"body": map[string]any{"type": "string"}, "fuel": field}}}}}
}

func (e *engines) setDefault(t *testing.T, fuel string) {
	t.Helper()
	r := e.client.Resource(definitions)
	crd, err := r.Get(t.Context(), "engines."+e.gvr.Group, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	versions[0].(map[string]any)["schema"] = schemaOf(fuel)
	if err := unstructured.SetNestedSlice(crd.Object, versions, "spec", "versions"); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Update(t.Context(), crd, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func fuelOf(obj any) string {
	fuel, _, _ := unstructured.NestedString(obj.(*unstructured.Unstructured).Object, "spec", "fuel")
	return fuel
}

// TestNewDefault checks that stored objects soon receive a new default of their CustomResourceDefinition, although
// their UIDs and resourceVersions stay the same. Handlers with and without a resync period must receive updates. After
// lost history Larder lists objects of 20 KB by metadata, which must not keep the old default (kubernetes#71138, issue
// 38).
func TestNewDefault(t *testing.T) {
	c := newCluster(t, shared)
	for size, bytes := range map[string]int{"1kb": 1 << 10, "20kb": 20 << 10} {
		t.Run("factory, "+size, func(t *testing.T) {
			t.Parallel()
			defineEngines(t, c, "factory-"+size+".example.com", bytes).inFactory(t)
		})
		t.Run("sync, "+size, func(t *testing.T) {
			t.Parallel()
			defineEngines(t, c, "sync-"+size+".example.com", bytes).inSync(t)
		})
	}
}

func (e *engines) inFactory(t *testing.T) {
	st, err := store.Open(filepath.Join(t.TempDir(), "s.db"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	}()
	config := e.Config(t.Name())
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	typed, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	f := factory.NewDynamicSharedInformerFactory(client, 0, factory.Options{
		Informer: informer.Options{Store: st}, Namespace: e.ns, RESTClient: typed.CoreV1().RESTClient(),
	})
	i := f.ForResource(e.gvr)
	updates := map[time.Duration]*fuels{0: {}, time.Hour: {}}
	for resync, u := range updates {
		handler := cache.ResourceEventHandlerFuncs{UpdateFunc: func(_, now any) { u.set(now) }}
		if _, err := i.Informer().AddEventHandlerWithResyncPeriod(handler, resync); err != nil {
			t.Fatal(err)
		}
	}
	stop := make(chan struct{})
	f.Start(stop)
	defer func() {
		close(stop)
		f.Shutdown()
	}()
	f.WaitForCacheSync(t.Context().Done())
	for _, fuel := range []string{"coal", "oil"} {
		e.setDefault(t, fuel)
		eventually(t, fuel, func() (problem string) {
			all := fuels{}
			for _, obj := range i.Informer().GetStore().List() {
				all.set(obj)
			}
			for resync, u := range updates {
				problem += u.differ(e.names(), fuel, fmt.Sprintf("handler with resync period %s", resync))
			}
			return problem + all.differ(e.names(), fuel, "stored")
		})
	}
}

func (e *engines) inSync(t *testing.T) {
	dir := t.TempDir()
	larder, kubeconfig, path := buildLarder(t, dir), filepath.Join(dir, "kubeconfig"), filepath.Join(dir, "s.db")
	writeKubeconfig(t, e.ControlPlane, kubeconfig)
	resource := e.gvr.GroupResource().String()
	p := startProgram(t, exec.Command(larder, "sync", resource, "--store", path, "--kubeconfig", kubeconfig), filepath.Join(dir, "log"), func([]byte) {})
	p.eventually(t, "larder wait", func() string {
		if out, err := exec.Command(larder, "wait", "--for", "live", "--timeout", "1m", path).CombinedOutput(); err != nil {
			return string(out)
		}
		return ""
	})
	for _, fuel := range []string{"coal", "oil"} {
		e.setDefault(t, fuel)
		want := strings.Repeat(fuel+" ", len(e.names()))
		p.eventually(t, fuel, func() string {
			out, err := exec.Command(larder, "get", resource, "-n", e.ns, "--from", path, "-o",
				"jsonpath={range .items[*]}{.spec.fuel} {end}").Output()
			if err != nil || string(out) != want {
				return fmt.Sprintf("%v: larder get prints %q", err, out)
			}
			return ""
		})
	}
	p.terminate(t)
}

type fuels struct {
	mu  sync.Mutex
	all map[string]string
}

func (f *fuels) set(obj any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.all == nil {
		f.all = map[string]string{}
	}
	f.all[obj.(*unstructured.Unstructured).GetName()] = fuelOf(obj)
}

func (f *fuels) differ(names []string, fuel, what string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	want := map[string]string{}
	for _, name := range names {
		want[name] = fuel
	}
	if maps.Equal(f.all, want) {
		return ""
	}
	return fmt.Sprintf("%s: %d objects with %q; ", what, len(f.all), slices.Sorted(maps.Values(f.all)))
}
