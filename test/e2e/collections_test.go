package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/reflector"
	"github.com/larder-dev/larder/store"
)

// secretValue is the content of a Secret. The file may contain it only with PersistSecrets.
const secretValue = "planted-secret-value-7f3a"

var widgets = schema.GroupVersionResource{Group: "e2e.larder.dev", Version: "v1", Resource: "widgets"}

// TestCollectionsInOneFile checks that collections of several namespaces, selectors and resources share a file, online
// and offline.
func TestCollectionsInOneFile(t *testing.T) {
	c := newCluster(t, shared)
	other := &cluster{ControlPlane: c.ControlPlane, client: c.client, ns: c.newNamespace(t)}
	c.createPods(t, names("a", 0, 20))
	other.createPods(t, names("b", 0, 10))
	c.label(t, names("a", 0, 5), "app", "chosen")
	c.createSecret(t)
	widgetClient := c.createWidgets(t, 10)
	cfg := c.Config(t.Name())
	sources := []source{
		podSource(t, cfg, c.ns),
		podSource(t, cfg, other.ns),
		typedSource(t, cfg, "pods", c.ns, "app=chosen", &corev1.Pod{}),
		typedSource(t, cfg, "secrets", c.ns, "", &corev1.Secret{}),
		dynamicSource(t, cfg, widgets, c.ns),
	}
	persist := func(o *informer.Options) { o.PersistSecrets = true }
	f := newFile(t)
	for round, online := range []bool{true, false} {
		var running []*subject
		for _, src := range sources {
			if !online {
				src.lw = podSource(t, unreachable(), "x").lw
			}
			running = append(running, f.start(t, src, persist, func(o *informer.Options) {
				if !online {
					o.SyncPolicy = informer.Disk
				}
			}))
		}
		for i, want := range []int{20, 10, 5, 1, 10} {
			running[i].sync(t)
			if got := len(running[i].held(t)); got != want {
				t.Errorf("round %d: collection %d holds %d objects, want %d", round, i, got, want)
			}
		}
		if problem := c.pods(t).diff(running[0].held(t)); problem != "" {
			t.Errorf("round %d: %s", round, problem)
		}
		if problem := c.widgets(t, widgetClient).diff(running[4].held(t)); problem != "" {
			t.Errorf("round %d: widgets: %s", round, problem)
		}
		for _, s := range running {
			s.stop(t)
		}
		f.close(t)
	}
	if f.bytesOnDisk(t, secretValue) == 0 {
		t.Error("the Secret was to be persisted and is not in the file: the search finds nothing")
	}
	// The method read also runs the integrity check of the whole file.
	if got := f.read(t, sources[1].identity, &corev1.Pod{}); len(got.objects) != 10 {
		t.Errorf("the second namespace holds %d objects", len(got.objects))
	}
}

// TestSecretsStayInMemory checks that without PersistSecrets no byte of a Secret reaches the file, and that the status
// says so.
func TestSecretsStayInMemory(t *testing.T) {
	c := newCluster(t, shared)
	c.createSecret(t)
	f := newFile(t)
	cfg := c.Config(t.Name())
	secrets := schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	for _, src := range []source{
		typedSource(t, cfg, "secrets", c.ns, "", &corev1.Secret{}),
		dynamicSource(t, cfg, secrets, c.ns),
	} {
		s := f.start(t, src)
		s.sync(t)
		if st := s.Status(); len(s.held(t)) != 1 || st.Persistent || st.NotPersistent == "" {
			t.Errorf("%d objects, status %+v", len(s.held(t)), st)
		}
		s.stop(t)
	}
	f.close(t)
	for _, text := range []string{secretValue, "the-secret", "cGxhbnRlZC1zZWNyZXQ"} { // value, name and base64 value of the Secret
		if n := f.bytesOnDisk(t, text); n > 0 {
			t.Errorf("%q is in the file %d times", text, n)
		}
	}
}

// TestChangedSelectorDoesNotResume checks that a changed selector starts a new collection in the file. The new
// collection must not resume from the old collection's resourceVersion, nor change the old collection's objects.
func TestChangedSelectorDoesNotResume(t *testing.T) {
	c := newCluster(t, shared)
	c.createPods(t, names("p", 0, 20))
	c.label(t, names("p", 0, 5), "app", "chosen")
	f := newFile(t)
	f.run(t, typedSource(t, c.Config(t.Name()+"/first"), "pods", c.ns, "app=e2e", &corev1.Pod{}))
	agent := t.Name() + "/second"
	s, left := f.run(t, typedSource(t, c.Config(agent), "pods", c.ns, "app=chosen", &corev1.Pod{}))
	if len(left.objects) != 5 {
		t.Errorf("%d objects, want the 5 chosen ones", len(left.objects))
	}
	for _, n := range s.all(t) {
		if n.verb != "add" {
			t.Errorf("%s of %s: the other selector's objects were taken over", n.verb, n.key)
		}
	}
	asked := c.asked(t, agent, "pods")
	if len(asked.lists) != 1 {
		t.Errorf("lists: %v, want one", asked.lists)
	}
	agent = t.Name() + "/first again"
	if _, left := f.run(t, typedSource(t, c.Config(agent), "pods", c.ns, "app=e2e",
		&corev1.Pod{})); len(left.objects) != 15 {
		t.Errorf("the first selector's collection holds %d objects, want 15", len(left.objects))
	}
	if asked := c.asked(t, agent, "pods"); len(asked.lists) > 0 {
		t.Errorf("the first selector did not resume: %v", asked.lists)
	}
}

// TestUpgradeWithNewSchema checks that a collection opens offline after an upgrade that changed the Go types. The
// collection serves the stored objects. Once online, it gets the fields that the older build dropped.
func TestUpgradeWithNewSchema(t *testing.T) {
	c := newCluster(t, shared)
	c.createPods(t, names("p", 0, 50))
	f := newFile(t)
	src := podSource(t, c.Config(t.Name()), c.ns)
	full, err := codec.For(&corev1.Pod{})
	if err != nil {
		t.Fatal(err)
	}
	old := f.start(t, src, func(o *informer.Options) { o.Codec, o.Residency = older{full}, store.None })
	old.sync(t)
	lossy := old.held(t)
	old.stop(t)
	f.close(t)
	want := c.pods(t)
	if want.diff(lossy) == "" || len(lossy) != 50 {
		t.Fatal("the older build lost nothing: the test shows nothing")
	}

	offline := src
	offline.lw = podSource(t, unreachable(), c.ns).lw
	s := f.start(t, offline, func(o *informer.Options) { o.SyncPolicy = informer.Disk })
	s.sync(t)
	if problem := lossy.diff(s.held(t)); problem != "" {
		t.Error("offline after the upgrade:", problem)
	}
	if st := s.Status(); st.Source != informer.FromDisk || st.LastContact.IsZero() {
		t.Errorf("status: %+v", st)
	}
	s.stop(t)
	f.close(t)

	s = f.start(t, src)
	s.sync(t)
	s.checkRelist(t, reflector.ReasonSchema)
	if problem := want.diff(s.held(t)); problem != "" {
		t.Error("after HasSynced:", problem)
	}
	// The listed objects differ from the stored objects under equal resourceVersions, so handlers receive updates.
	eventually(t, "updates", func() string {
		if n := len(s.all(t)); n < 100 {
			return fmt.Sprintf("%d notices", n)
		}
		return ""
	})
	updates := objects{}
	for key, n := range changesOf(t, s.replayed(t, lossy))["update"] {
		updates[key] = n.obj
	}
	if problem := want.diff(updates); problem != "" {
		t.Error("updates:", problem)
	}
	s.stop(t)
	f.close(t)

	s = f.start(t, src) // a restart sends no list
	s.sync(t)
	if st := s.Status().Reflector; len(st.Relists) > 0 || st.Lists > 0 {
		t.Errorf("relists after the upgrade was done: %v", st.Relists)
	}
	s.replayed(t, want)
}

// older is the codec of an older build, whose Pod type lacks images.
type older struct{ codec.Codec }

func (o older) Fingerprint() string { return o.Codec.Fingerprint() + "-older" }

func (o older) Append(dst []byte, obj runtime.Object) ([]byte, error) {
	p, ok := obj.DeepCopyObject().(*corev1.Pod)
	if !ok {
		return nil, fmt.Errorf("%T is no pod", obj)
	}
	for i := range p.Spec.Containers {
		p.Spec.Containers[i].Image = ""
	}
	return o.Codec.Append(dst, p)
}

func unreachable() *rest.Config { return &rest.Config{Host: "https://127.0.0.1:1"} }

func (f *file) bytesOnDisk(t *testing.T, text string) int {
	t.Helper()
	raw, err := os.ReadFile(f.path)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Count(raw, []byte(text))
}

func (c *cluster) createSecret(t *testing.T) {
	t.Helper()
	s := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "the-secret", Annotations: map[string]string{"last-applied": secretValue}},
		Data:       map[string][]byte{"k": []byte(secretValue)},
	}
	if _, err := c.client.CoreV1().Secrets(c.ns).Create(t.Context(), s, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (c *cluster) label(t *testing.T, names []string, key, value string) {
	t.Helper()
	inParallel(t, names, func(ctx context.Context, name string) error {
		p, err := c.client.CoreV1().Pods(c.ns).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		p.Labels[key] = value
		_, err = c.client.CoreV1().Pods(c.ns).Update(ctx, p, metav1.UpdateOptions{})
		return err
	})
}

func (c *cluster) createNamespace(t *testing.T, name string) {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := c.client.CoreV1().Namespaces().Create(t.Context(), ns, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func define(t *testing.T, client dynamic.Interface, plural, kind string) {
	t.Helper()
	crd := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": plural + "." + widgets.Group},
		"spec": map[string]any{
			"group": widgets.Group, "scope": "Namespaced",
			"names": map[string]any{"plural": plural, "singular": strings.ToLower(kind), "kind": kind,
				"listKind": kind + "List"},
			"versions": []any{map[string]any{
				"name": "v1", "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object",
					"x-kubernetes-preserve-unknown-fields": true}},
			}},
		},
	}}
	crds := client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1",
		Resource: "customresourcedefinitions"})
	if _, err := crds.Create(t.Context(), crd, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// createWidgets creates a CustomResourceDefinition without a schema, and objects with all kinds of JSON values:
// integers, nulls, empty lists, unknown fields.
func (c *cluster) createWidgets(t *testing.T, n int) dynamic.NamespaceableResourceInterface {
	t.Helper()
	client, err := dynamic.NewForConfig(c.Config(writer))
	if err != nil {
		t.Fatal(err)
	}
	define(t, client, widgets.Resource, "Widget")
	r := client.Resource(widgets)
	for i := range n {
		w := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "e2e.larder.dev/v1", "kind": "Widget",
			"metadata": map[string]any{"name": fmt.Sprintf("w-%d", i)},
			"spec": map[string]any{
				"int": int64(1 << 53), "float": 1.5, "whole": 2.0, "list": []any{}, "map": map[string]any{},
				"nested": []any{map[string]any{"deep": []any{nil, "x", true}}},
			},
		}}
		eventually(t, "the CRD", func() string {
			_, err := r.Namespace(c.ns).Create(t.Context(), w, metav1.CreateOptions{})
			if err != nil {
				return err.Error()
			}
			return ""
		})
	}
	return r
}

func (c *cluster) widgets(t *testing.T, r dynamic.NamespaceableResourceInterface) objects {
	t.Helper()
	list, err := r.Namespace(c.ns).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	out := objects{}
	for i := range list.Items {
		out.put(t, &list.Items[i])
	}
	return out
}
