package informer_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/store"
	"github.com/larder-dev/larder/store/query"
)

// countedPod is a pod type that counts how often it is decoded.
type countedPod struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	Spec              corev1.PodSpec   `json:"spec,omitempty" protobuf:"bytes,2,opt,name=spec"`
	Status            corev1.PodStatus `json:"status,omitempty" protobuf:"bytes,3,opt,name=status"`
}

var decodedPods atomic.Int64

func (p *countedPod) Size() int { return (*corev1.Pod)(p).Size() }

func (p *countedPod) MarshalToSizedBuffer(b []byte) (int, error) {
	return (*corev1.Pod)(p).MarshalToSizedBuffer(b)
}

func (p *countedPod) Unmarshal(b []byte) error {
	decodedPods.Add(1)
	return (*corev1.Pod)(p).Unmarshal(b)
}

func (p *countedPod) DeepCopyObject() runtime.Object {
	return (*countedPod)((*corev1.Pod)(p).DeepCopy())
}

// countedInformer returns an informer, never run, on 60 stored pods in three namespaces. Every fifth pod has the label
// tier=front and is on node-1.
func countedInformer(t *testing.T, o informer.Options) *informer.Informer {
	t.Helper()
	st, err := store.Open(filepath.Join(t.TempDir(), "larder.db"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeChecked(t, st) })
	o.Store, o.Identity = st, podsIdentity
	o.Indexers = cache.Indexers{"node": func(obj any) ([]string, error) {
		return []string{obj.(*countedPod).Spec.NodeName},
			nil
	}}
	o.IndexVersions = map[string]string{"node": "1"}
	i, err := informer.New(newServer(), &countedPod{}, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { i.Close() })
	var pods []runtime.Object
	for n := range 60 {
		pod := &countedPod{ObjectMeta: metav1.ObjectMeta{
			Namespace: []string{"a", "b", "c"}[n/20], Name: fmt.Sprintf("%02d", n), UID: "uid", ResourceVersion: "1",
			Labels: map[string]string{"tier": "back"},
		}}
		pod.Spec.NodeName = fmt.Sprintf("node-%d", 1+n%5)
		if n%5 == 0 {
			pod.Labels["tier"] = "front"
		}
		pods = append(pods, pod)
	}
	list, err := informer.Store(i).BeginReplace(t.Context(), store.ReplaceOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := list.Page(t.Context(), pods); err != nil {
		t.Fatal(err)
	}
	if _, err := list.Commit(t.Context(), entry.Batch{ResourceVersion: "5"}); err != nil {
		t.Fatal(err)
	}
	if err := st.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	return i
}

func closeChecked(t *testing.T, st *store.Store) {
	report, err := st.Check(context.Background())
	if err != nil || len(report.Problems) > 0 {
		t.Errorf("check: %v, %v", report.Problems, err)
	}
	if err := st.Close(); err != nil {
		t.Error(err)
	}
}

func TestReaderDecodesOnlySelectedObjects(t *testing.T) {
	i := countedInformer(t, informer.Options{Residency: store.None})
	r := i.Reader()
	front := labels.SelectorFromSet(labels.Set{"tier": "front"})
	each := func(q query.Query) func(context.Context) ([]runtime.Object, error) {
		return func(ctx context.Context) (objs []runtime.Object, err error) {
			err = r.Each(ctx, q, func(_ string, obj runtime.Object) error {
				objs = append(objs, obj)
				return nil
			})
			return objs, err
		}
	}
	selected := func(q query.Query) func(context.Context) ([]runtime.Object, error) {
		return func(ctx context.Context) ([]runtime.Object, error) { return r.Select(ctx, q) }
	}
	onNode1 := fields.OneTermEqualSelector("spec.nodeName", "node-1")
	for name, c := range map[string]struct {
		read func(context.Context) ([]runtime.Object, error)
		want string
	}{
		"by label":                   {selected(query.Query{Labels: front, Namespace: "b"}), "b/20 b/25 b/30 b/35"},
		"by field":                   {selected(query.Query{Fields: onNode1, Namespace: "c"}), "c/40 c/45 c/50 c/55"},
		"by label, one by one":       {each(query.Query{Labels: front, Namespace: "b"}), "b/20 b/25 b/30 b/35"},
		"by namespace, page by page": {each(query.Query{Namespace: "b", After: "b/30", Limit: 3}), "b/31 b/32 b/33"},
		"by label, page by page":     {selected(query.Query{Labels: front, After: "a/15", Limit: 2}), "b/20 b/25"},
	} {
		t.Run(name, func(t *testing.T) {
			before := decodedPods.Load()
			objs, err := c.read(t.Context())
			if got := strings.Join(keysOf(t, objs), " "); got != c.want || err != nil {
				t.Errorf("%s, %v; want %s", got, err, c.want)
			}
			if n := decodedPods.Load() - before; n != int64(len(objs)) {
				t.Errorf("%d objects were decoded for %d", n, len(objs))
			}
		})
	}
}

// TestReaderOfAnInformer checks that Informer.Reader can be used before Run and after Close, and returns uncommitted
// changes.
func TestReaderOfAnInformer(t *testing.T) {
	front := query.Query{Labels: labels.SelectorFromSet(labels.Set{"tier": "front"}), Namespace: "a"}
	for _, o := range []informer.Options{{}, {Residency: store.None}} {
		t.Run(o.Residency.String(), func(t *testing.T) {
			i := countedInformer(t, o)
			pod := &countedPod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "late",
				Labels: map[string]string{"tier": "front"}}}
			if _, err := informer.Store(i).Apply(t.Context(),
				entry.Batch{Ops: []entry.Op{{Object: pod}}, ResourceVersion: "6"}); err != nil {
				t.Fatal(err)
			}
			want := []string{"a/00", "a/05", "a/10", "a/15", "a/late"}
			for _, when := range []string{"before it runs", "when it was closed"} {
				objs, err := i.Reader().Select(t.Context(), front)
				if got := keysOf(t, objs); !slices.Equal(got, want) || err != nil {
					t.Errorf("%s: %v, %v; want %v", when, got, err, want)
				}
				i.Close()
			}
		})
	}
	t.Run("InMemory", func(t *testing.T) {
		i, err := informer.New(newServer(), &corev1.Pod{}, informer.Options{InMemory: true, Identity: podsIdentity})
		if err != nil {
			t.Fatal(err)
		}
		if objs, err := i.Reader().Select(t.Context(), front); len(objs) > 0 || err != nil {
			t.Errorf("%d objects, %v", len(objs), err)
		}
	})
}

func keysOf(t *testing.T, objs []runtime.Object) (keys []string) {
	t.Helper()
	for _, obj := range objs {
		o, err := meta.Accessor(obj)
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, o.GetNamespace()+"/"+o.GetName())
	}
	return keys
}
