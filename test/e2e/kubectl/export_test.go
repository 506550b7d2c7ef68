package kubectl

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/larder-dev/larder/test/e2e/served"
)

const shop = "shop"

// testExport checks that all objects of a namespace can be exported, deleted and applied again, and that the next
// export is the same (velero#6711, issue 38, F.28).
func (c *creator) testExport(t *testing.T, d *discovery.DiscoveryClient, config *rest.Config) {
	dir := t.TempDir()
	kubeconfig := filepath.Join(dir, "kubeconfig")
	if err := served.WriteKubeconfig(kubeconfig, config); err != nil {
		t.Fatal(err)
	}
	c.debug(t)
	all := namespaced(t, d)
	export := func(name string) map[string]string {
		t.Helper()
		snapshot, to := filepath.Join(dir, name+".larder"), filepath.Join(dir, name)
		args := []string{"snapshot", "save", snapshot, "-n", shop, "--include-secrets", "--kubeconfig", kubeconfig}
		for _, r := range all {
			args = append(args, r.Resource+"."+r.Version+"."+r.Group)
		}
		output(t, larder, args...)
		output(t, larder, "snapshot", "export", to, "--include-secrets", "--from", snapshot)
		files := filesIn(t, to)
		// When a Service is deleted and applied again, kube-apiserver may report its address by an Event of its own.
		maps.DeleteFunc(files, func(_, text string) bool { return strings.Contains(text, "ipallocator-repair-controller") })
		return files
	}
	var before map[string]string
	for _, name := range []string{"first", "second"} { // before and after a LimitRange sets defaults
		if before = export(name); len(before) < 60 {
			t.Errorf("%d objects are exported", len(before))
		}
		testChosen(t, before)
		for _, r := range all {
			c.deleteAll(t, r)
		}
		kinds, err := filepath.Glob(filepath.Join(dir, name, "*", "*"))
		if err != nil {
			t.Fatal(err)
		}
		slices.Reverse(kinds) // a Workload must be applied before its PodGroup
		args := []string{"apply", "-R", "--kubeconfig", kubeconfig, "--cache-dir", filepath.Join(dir, "cache")}
		for _, kind := range kinds {
			args = append(args, "-f", kind)
		}
		output(t, kubectl, args...)
	}
	if diff := cmp.Diff(before, export("third")); diff != "" {
		t.Errorf("exported again (- before, + after):\n%s", diff)
	}
}

// testChosen checks that an export keeps addresses and ports chosen by a client, and omits those that the server
// assigned.
func testChosen(t *testing.T, exported map[string]string) {
	t.Helper()
	for name, want := range map[string]bool{"chosen": true, "assigned": false, "local": false} {
		text := exported["/shop/services/"+name+".yaml"]
		for _, field := range []string{"clusterIP: 10.", "nodePort: "} {
			if strings.Contains(text, field) != want {
				t.Errorf("the Service %s is exported as\n%s", name, text)
			}
		}
	}
}

func namespaced(t *testing.T, d *discovery.DiscoveryClient) (all []schema.GroupVersionResource) {
	t.Helper()
	lists, err := d.ServerPreferredNamespacedResources()
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range list.APIResources {
			if slices.Contains(r.Verbs, "watch") && slices.Contains(r.Verbs, "list") {
				all = append(all, gv.WithResource(r.Name))
			}
		}
	}
	return all
}

func (c *creator) deleteAll(t *testing.T, r schema.GroupVersionResource) {
	t.Helper()
	of := c.client.Resource(r).Namespace(shop)
	var now int64
	eventually(t, "all "+r.String()+" are deleted", func() (left string) {
		list, err := of.List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err.Error()
		}
		for i := range list.Items { // a failed removal shows in the next list
			u := &list.Items[i]
			left += u.GetName() + " "
			if len(u.GetFinalizers()) > 0 {
				u.SetFinalizers(nil)
				_, _ = of.Update(t.Context(), u, metav1.UpdateOptions{})
			}
			_ = of.Delete(t.Context(), u.GetName(), metav1.DeleteOptions{GracePeriodSeconds: &now})
		}
		return left
	})
}

func (c *creator) debug(t *testing.T) {
	t.Helper()
	pods := c.client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "pods"}).Namespace(shop)
	pod, err := pods.Get(t.Context(), "running", metav1.GetOptions{})
	if err == nil {
		err = unstructured.SetNestedSlice(pod.Object, []any{map[string]any{"name": "debug", "image": "x",
			"imagePullPolicy": "Always", "terminationMessagePolicy": "File"}}, "spec", "ephemeralContainers")
	}
	if err == nil {
		_, err = pods.Update(t.Context(), pod, metav1.UpdateOptions{}, "ephemeralcontainers")
	}
	if err != nil {
		t.Fatal(err)
	}
}

func filesIn(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		all[strings.TrimPrefix(path, dir)] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
