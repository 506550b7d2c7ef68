package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
)

var (
	deployments = appsv1.SchemeGroupVersion.WithResource("deployments")
	configMaps  = corev1.SchemeGroupVersion.WithResource("configmaps")
	secrets     = corev1.SchemeGroupVersion.WithResource("secrets")
	crds        = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1",
		Resource: "customresourcedefinitions"}
	exampleWidgets = schema.GroupVersionResource{Group: "example.larder.dev", Version: "v1", Resource: "widgets"}
)

// TestExamples kills and restarts each program of examples/. Meanwhile it creates, changes and deletes objects of every
// watched kind. The shared server has no watch cache for ConfigMaps, so the test starts its own server.
func TestExamples(t *testing.T) {
	t.Parallel()
	cp := ownControlPlane(t)
	bin := buildExamples(t)
	for _, x := range []struct {
		program string
		prepare func(*testing.T, *example)
	}{{"typed", typedExample}, {"dynamic", dynamicExample}, {"manager", managerExample}} {
		t.Run(x.program, func(t *testing.T) {
			e := &example{cluster: newCluster(t, cp), bin: bin, program: x.program}
			x.prepare(t, e)
			e.verify(t)
		})
	}
}

func typedExample(t *testing.T, e *example) {
	e.watched = []schema.GroupVersionResource{deployments, configMaps}
	e.reconcilers = map[string]schema.GroupVersionResource{"deployment": deployments}
	e.seesDeletes = true
	replicas := map[string]int32{}
	for _, name := range append(names("stays", 0, 4), "changes", "goes", "tampered", "bare") {
		replicas[name] = 1
		e.createDeployment(t, e.ns, name)
	}
	e.unfinished = func() string {
		for name, n := range replicas {
			if got := e.configMap(t, e.ns, name+"-summary")["replicas"]; got != fmt.Sprint(n) {
				return fmt.Sprintf("the summary of %s says %q replicas, want %d", name, got, n)
			}
		}
		return ""
	}
	e.meanwhile = func() {
		e.createDeployment(t, e.ns, "comes")
		e.patch(t, deployments, e.ns, "changes", `{"spec":{"replicas":7}}`)
		e.delete(t, deployments, e.ns, "goes")
		e.createConfigMap(t, "a-stranger")
		e.patch(t, configMaps, e.ns, "tampered-summary", `{"data":{"replicas":"99"}}`)
		e.delete(t, configMaps, e.ns, "bare-summary")
		replicas["comes"], replicas["changes"] = 1, 7
		delete(replicas, "goes")
	}
}

func dynamicExample(t *testing.T, e *example) {
	e.watched = []schema.GroupVersionResource{exampleWidgets}
	e.reconcilers = map[string]schema.GroupVersionResource{"widget": exampleWidgets}
	e.seesDeletes = true
	e.applyWidgets(t)
	areas := map[string]int64{}
	for _, name := range append(names("stays", 0, 4), "changes", "goes", "tampered") {
		areas[name] = 6
		e.createWidget(t, name)
	}
	e.unfinished = func() string {
		for name, want := range areas {
			w, err := e.dynamic(t).Resource(exampleWidgets).Namespace(e.ns).Get(t.Context(), name, metav1.GetOptions{})
			if err != nil {
				return err.Error()
			}
			if got, _, err := unstructured.NestedInt64(w.Object, "status", "area"); err != nil || got != want {
				return fmt.Sprintf("%s has the area %d (%v), want %d", name, got, err, want)
			}
		}
		return ""
	}
	e.meanwhile = func() {
		e.createWidget(t, "comes")
		e.patch(t, exampleWidgets, e.ns, "changes", `{"spec":{"height":5}}`)
		e.delete(t, exampleWidgets, e.ns, "goes")
		e.patch(t, exampleWidgets, e.ns, "tampered", `{"status":{"area":1}}`, "status")
		areas["comes"], areas["changes"] = 6, 10
		delete(areas, "goes")
	}
}

func (e *example) applyWidgets(t *testing.T) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "examples", "dynamic", "widgets.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	crd := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(text, &crd.Object); err != nil {
		t.Fatal(err)
	}
	if _, err := e.dynamic(t).Resource(crds).Create(t.Context(), crd, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (e *example) createWidget(t *testing.T, name string) {
	t.Helper()
	w := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": exampleWidgets.GroupVersion().String(), "kind": "Widget",
		"metadata": map[string]any{"name": name}, "spec": map[string]any{"width": int64(2), "height": int64(3)},
	}}
	eventually(t, "the CRD", func() string {
		if _, err := e.dynamic(t).Resource(exampleWidgets).Namespace(e.ns).Create(t.Context(),
			w, metav1.CreateOptions{}); err != nil {
			return err.Error()
		}
		return ""
	})
}

func (c *cluster) createDeployment(t *testing.T, ns, name string, secrets ...string) {
	t.Helper()
	labels := map[string]string{"app": name}
	template := pod(ns, name).Spec
	for _, secret := range secrets {
		template.Volumes = append(template.Volumes, corev1.Volume{
			Name: secret, VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: secret}},
		})
	}
	_, err := c.client.AppsV1().Deployments(ns).Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: template},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

func (c *cluster) createConfigMap(t *testing.T, name string) {
	t.Helper()
	configMap := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := c.client.CoreV1().ConfigMaps(c.ns).Create(t.Context(), configMap, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (c *cluster) configMap(t *testing.T, ns, name string) map[string]string {
	t.Helper()
	found, err := c.client.CoreV1().ConfigMaps(ns).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		return nil
	}
	return found.Data
}

func (c *cluster) dynamic(t *testing.T) dynamic.Interface {
	t.Helper()
	client, err := dynamic.NewForConfig(c.Config(writer))
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func (c *cluster) patch(t *testing.T, gvr schema.GroupVersionResource, ns, name, patch string, subresources ...string) {
	t.Helper()
	r := c.dynamic(t).Resource(gvr).Namespace(ns)
	if _, err := r.Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{},
		subresources...); err != nil {
		t.Fatal(err)
	}
}

func (c *cluster) delete(t *testing.T, gvr schema.GroupVersionResource, ns, name string) {
	t.Helper()
	if err := c.dynamic(t).Resource(gvr).Namespace(ns).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}
