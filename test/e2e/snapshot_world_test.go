package e2e

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/snapshot"
)

type worldKind struct {
	resource schema.GroupVersionResource
	kind     string
	// example is an empty object of the collection's Go type, or nil if the collection has unstructured objects.
	example runtime.Object
}

// worldKinds are the mirrored resources: built-in kinds in protobuf, kinds stored as JSON, custom resources, a
// cluster-scoped kind, and sealed Secrets.
var worldKinds = []worldKind{
	{corev1.SchemeGroupVersion.WithResource("pods"), "Pod", &corev1.Pod{}},
	{secrets, "Secret", &corev1.Secret{}},
	{corev1.SchemeGroupVersion.WithResource("events"), "Event", &corev1.Event{}},
	{configMaps, "ConfigMap", nil},
	{deployments, "Deployment", nil},
	{corev1.SchemeGroupVersion.WithResource("namespaces"), "Namespace", nil},
	{corev1.SchemeGroupVersion.WithResource("services"), "Service", nil},
	{crds, "CustomResourceDefinition", nil},
	{widgets, "Widget", nil},
}

type world struct {
	*cluster
	typed   kubernetes.Interface
	dynamic dynamic.Interface
	spaces  []string
	pods    int
}

func newWorld(t *testing.T, c *cluster, pods int) *world {
	t.Helper()
	cfg := rest.CopyConfig(c.Config(writer))
	w := &world{cluster: c, pods: pods}
	var err error
	if w.dynamic, err = dynamic.NewForConfig(cfg); err != nil {
		t.Fatal(err)
	}
	cfg.ContentType = runtime.ContentTypeProtobuf
	if w.typed, err = kubernetes.NewForConfig(cfg); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		w.spaces = append(w.spaces, c.newNamespace(t))
	}
	w.createWidgets(t, 30)
	inParallelBy(t, 32, names("p", 0, pods), w.createPod)
	inParallel(t, names("s", 0, 200), w.createSecret)
	inParallel(t, names("e", 0, 200), w.createEvent)
	inParallel(t, names("c", 0, 100), w.createConfigMap)
	inParallel(t, names("d", 0, 50), w.createDeployment)
	return w
}

func (w *world) space(name string) string { return w.spaces[int(name[len(name)-1]-'0')] }

func randomOf(name string) *rand.Rand {
	var seed uint64
	for _, b := range []byte(name) {
		seed = seed*257 + uint64(b)
	}
	return rand.New(rand.NewPCG(seed, 1))
}

func randomHex(random *rand.Rand, bytes int) string {
	b := make([]byte, bytes)
	for i := range b {
		b[i] = byte(random.Uint32())
	}
	return hex.EncodeToString(b)
}

// createPod creates a pod of about 3 KB. Its fields vary as much as those in real pods.
func (w *world) createPod(ctx context.Context, name string) error {
	random := randomOf(name)
	app := "app-" + name[len(name)-2:]
	p := pod(w.space(name), name)
	p.GenerateName = app + "-"
	p.Labels = map[string]string{"app": app, "tier": fmt.Sprintf("tier-%d", random.IntN(4)),
		"pod-template-hash": randomHex(random, 5)}
	p.Annotations = map[string]string{"checksum/config": randomHex(random, 32)}
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: app,
		UID: types.UID(randomHex(random, 16))}}
	p.Spec.NodeName = fmt.Sprintf("node-%d", random.IntN(500))
	p.Spec.Containers = nil
	for n := range 2 {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{
			Name: fmt.Sprintf("c%d", n), Image: fmt.Sprintf("images/%s-%d:%d", app, n, random.IntN(20)),
			Args: []string{"--listen=:8080", "--peer=" + app + ".svc", "--verbose"},
			Env: []corev1.EnvVar{{Name: "APP", Value: app}, {Name: "TOKEN_FILE", Value: "/var/run/token"},
				{Name: "RELEASE", Value: randomHex(random, 20)}},
		})
	}
	_, err := w.typed.CoreV1().Pods(p.Namespace).Create(ctx, p, metav1.CreateOptions{})
	return err
}

func (w *world) createSecret(ctx context.Context, name string) error {
	random := randomOf(name)
	s := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"l": randomHex(random, 8)}},
		Data:       map[string][]byte{"key": []byte(randomHex(random, 100)), "empty": {}},
	}
	_, err := w.typed.CoreV1().Secrets(w.space(name)).Create(ctx, s, metav1.CreateOptions{})
	return err
}

func (w *world) createEvent(ctx context.Context, name string) error {
	ns := w.space(name)
	e := &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Name: name},
		InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: ns, Name: "p-00000"},
		Reason:         "Started", Message: "Started " + randomHex(randomOf(name), 20), Type: corev1.EventTypeNormal,
		FirstTimestamp: metav1.Now(), LastTimestamp: metav1.Now(), Count: 1,
	}
	_, err := w.typed.CoreV1().Events(ns).Create(ctx, e, metav1.CreateOptions{})
	return err
}

func (w *world) createConfigMap(ctx context.Context, name string) error {
	cm := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Data:       map[string]string{"text": "a: 1\nb: \u00e9\u2028\n", "random": randomHex(randomOf(name), 500)},
		BinaryData: map[string][]byte{"bytes": {0, 255, 1}},
	}
	_, err := w.typed.CoreV1().ConfigMaps(w.space(name)).Create(ctx, cm, metav1.CreateOptions{})
	return err
}

func (w *world) createDeployment(ctx context.Context, name string) error {
	labels := map[string]string{"app": name}
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod("", "").Spec},
		},
	}
	_, err := w.typed.AppsV1().Deployments(w.space(name)).Create(ctx, d, metav1.CreateOptions{})
	return err
}

// change creates, changes and deletes objects of every kind. Of the cluster-scoped kind it only creates some.
func (w *world) change(t *testing.T) {
	t.Helper()
	w.newNamespace(t)
	inParallel(t, names("p", w.pods, w.pods+50), w.createPod)
	inParallel(t, names("s", 500, 510), w.createSecret)
	inParallel(t, names("e", 500, 510), w.createEvent)
	inParallel(t, names("c", 500, 510), w.createConfigMap)
	inParallel(t, names("d", 500, 510), w.createDeployment)
	for prefix, kind := range map[string]schema.GroupVersionResource{
		"p": worldKinds[0].resource, "s": secrets, "e": worldKinds[2].resource, "c": configMaps, "d": deployments,
	} {
		inParallel(t, names(prefix, 10, 30), func(ctx context.Context, name string) error {
			patch := []byte(`{"metadata":{"annotations":{"changed":"meanwhile"}}}`)
			_, err := w.dynamic.Resource(kind).Namespace(w.space(name)).Patch(ctx, name, types.MergePatchType, patch,
				metav1.PatchOptions{})
			return err
		})
		inParallel(t, names(prefix, 30, 40), func(ctx context.Context, name string) error {
			return w.dynamic.Resource(kind).Namespace(w.space(name)).Delete(ctx, name,
				metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))})
		})
	}
	of := w.dynamic.Resource(widgets).Namespace(w.ns)
	if _, err := of.Patch(t.Context(), "w-1", types.MergePatchType, []byte(`{"spec":{"whole":3.0,"new":[1,2.5,null]}}`),
		metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := of.Delete(t.Context(), "w-2", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (k worldKind) source(t *testing.T, cfg *rest.Config) source {
	t.Helper()
	if k.example == nil {
		return dynamicSource(t, cfg, k.resource, "")
	}
	return typedSource(t, cfg, k.resource.Resource, "", "", k.example)
}

// info returns the discovery data that decoders need.
func (k worldKind) info() entry.ResourceInfo { return entry.ResourceInfo{Kind: k.kind} }

func (w *world) listings() (all []snapshot.Listing) {
	for _, k := range worldKinds {
		of := w.dynamic.Resource(k.resource)
		all = append(all, snapshot.Listing{
			Identity: entry.Identity{GroupVersionResource: k.resource, Representation: entry.Unstructured}, Resource: k.info(),
			List: of.List,
		})
	}
	return all
}

// scene is the server's state at one time: the objects of each resource, in key order.
type scene map[schema.GroupVersionResource][]exactly

// exactly identifies an object by key, resourceVersion and a digest of its content.
type exactly struct {
	key, version string
	digest       [sha256.Size]byte
}

func exactlyOf(obj *unstructured.Unstructured) exactly {
	return exactly{
		key: cache.MetaObjectToName(obj).String(), version: obj.GetResourceVersion(),
		digest: sha256.Sum256(canonical(nil, obj.Object)),
	}
}

// canonical appends an encoding of a JSON value. Two values have equal encodings only if reflect.DeepEqual finds them
// equal.
func canonical(to []byte, value any) []byte {
	switch v := value.(type) {
	case map[string]any:
		to = header(to, "map ", len(v), v == nil)
		for _, key := range slices.Sorted(maps.Keys(v)) {
			to = canonical(canonicalText(to, key), v[key])
		}
	case []any:
		to = header(to, "list ", len(v), v == nil)
		for _, item := range v {
			to = canonical(to, item)
		}
	case string:
		to = canonicalText(to, v)
	case int64:
		to = append(strconv.AppendInt(append(to, "int64 "...), v, 10), ';')
	case bool:
		to = append(strconv.AppendBool(append(to, "bool "...), v), ';')
	default:
		to = fmt.Appendf(to, "%T %v;", v, v)
	}
	return to
}

func canonicalText(to []byte, text string) []byte {
	return append(header(to, "string ", len(text), false), text...)
}

func header(to []byte, kind string, length int, isNil bool) []byte {
	to = strconv.AppendInt(append(to, kind...), int64(length), 10)
	if isNil {
		to = append(to, " nil"...)
	}
	return append(to, ';')
}

// scene lists the server's current objects page by page.
func (w *world) scene(t *testing.T) scene {
	t.Helper()
	all := scene{}
	for _, k := range worldKinds {
		for o := (metav1.ListOptions{Limit: 2000}); ; {
			list, err := w.dynamic.Resource(k.resource).List(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			for n := range list.Items {
				all[k.resource] = append(all[k.resource], exactlyOf(&list.Items[n]))
			}
			if o.Continue = list.GetContinue(); o.Continue == "" {
				break
			}
		}
	}
	return all
}

func (s scene) objects() (n int) {
	for _, all := range s {
		n += len(all)
	}
	return n
}

// mustBe fails the test if a store or a snapshot differs from the server's state in any object. Integers and floats
// count as different.
func (s scene) mustBe(t *testing.T, what string, src snapshot.Source) {
	t.Helper()
	all, err := src.Collections(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != len(worldKinds) {
		t.Errorf("%s has %d collections, want %d", what, len(all), len(worldKinds))
	}
	for _, c := range all {
		if c.MustRelist != "" || !c.Complete || c.ResourceVersion == "" {
			t.Errorf("%s: %s cannot be resumed: %+v", what, c.Identity, c)
		}
		if problem := s.diff(t, c, src); problem != "" {
			t.Errorf("%s: %s: %s", what, c.Identity, problem)
		}
	}
}

func (s scene) diff(t *testing.T, c snapshot.Collection, src snapshot.Source) (problem string) {
	t.Helper()
	want := s[c.Identity.GroupVersionResource]
	d := snapshot.NewDecoder(c)
	err := src.Records(t.Context(), c.Identity, func(r entry.Entry) error {
		if problem != "" {
			return nil
		}
		if len(want) == 0 {
			problem = r.Key + " should not be there"
			return nil
		}
		obj, err := d.Decode(r)
		if err != nil {
			return err
		}
		switch got := exactlyOf(obj); {
		case r.Key != want[0].key || got.key != r.Key:
			problem = fmt.Sprintf("%s (%s) instead of %s", r.Key, got.key, want[0].key)
		case got != want[0] || r.ResourceVersion != got.version:
			problem = fmt.Sprintf("%s is not that of resourceVersion %s: %+v", r.Key, want[0].version, obj)
		}
		want = want[1:]
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if problem == "" && len(want) > 0 {
		problem = want[0].key + " is missing"
	}
	return problem
}

// TestCanonical checks that canonical distinguishes all values that reflect.DeepEqual distinguishes.
func TestCanonical(t *testing.T) {
	values := []any{
		nil, true, "true", "", "a", int64(1), 1.0, "1", 1.5, int64(1 << 53), []any{}, []any{nil}, []any{"a", "b"},
		[]any{"ab"}, []any{[]any{"a"}, "b"},
		map[string]any{}, map[string]any{"a": nil}, map[string]any{"a": map[string]any{}}, map[string]any{"a": "b"},
		map[string]any{"a": "b", "c": "d"},
		map[string]any{"a": "bstring 1;cstring 1;d"}, []any(nil), map[string]any(nil),
	}
	seen := map[string]any{}
	for _, v := range values {
		text := string(canonical(nil, v))
		if other, found := seen[text]; found {
			t.Errorf("%#v and %#v are both %q", other, v, text)
		}
		if text != string(canonical(nil, v)) {
			t.Errorf("%#v is not always the same", v)
		}
		seen[text] = v
	}
}
