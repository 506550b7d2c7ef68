package storetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/store"
	"github.com/larder-dev/larder/store/query"
)

// Queried has the query methods of store.Interface and store.View.
type Queried interface {
	Select(ctx context.Context, q query.Query) ([]runtime.Object, error)
	Each(ctx context.Context, q query.Query, fn func(key string, obj runtime.Object) error) error
	ByIndex(ctx context.Context, index string, values ...string) ([]runtime.Object, error)
	IndexKeys(ctx context.Context, index, value string) ([]string, error)
	IndexValues(ctx context.Context, index string) ([]string, error)
}

// QueryIndexers are the indexes that RunQueries needs. Their functions accept objects of any type.
var QueryIndexers = cache.Indexers{"color": func(obj any) ([]string, error) {
	o, err := meta.Accessor(obj)
	if err != nil {
		return nil, err
	}
	return ByColor(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: o.GetLabels()}})
}}

// QueryPods are the objects that RunQueries needs.
func QueryPods() []*corev1.Pod {
	var pods []*corev1.Pod
	add := func(key, phase, node string, labels ...string) {
		p := Pod(key, "uid-"+key, fmt.Sprint(len(pods)+1), labels...)
		p.Status.Phase, p.Spec.NodeName, p.Spec.HostNetwork = corev1.PodPhase(phase), node, node == "n1"
		if node == "n2" {
			p.Spec.Priority = new(int32)
			*p.Spec.Priority = -7
		}
		pods = append(pods, p)
	}
	add("a/w", "Running", "n1", ColorLabel, "red", "tier", "front")
	add("a/x", "Running", "n2", ColorLabel, "red.green", "tier", "back")
	add("a/y", "Pending", "", ColorLabel, "blue")
	add("a-b/x", "Running", "n1", ColorLabel, "red")
	add("a.b/x", "Failed", "n2", "tier", "front", "weight", "12")
	add("b/x", "Running", "n2", ColorLabel, "zz", "weight", "3")
	add("b/y", "Running", "n1", ColorLabel, longColor+"1")
	add("b/z", "Running", "n1", ColorLabel, "re", "tier", "back")
	add("c", "Running", "n1", ColorLabel, "redd."+longColor+"2", "tier", "front")
	return pods
}

// longColor is longer than bbolt's limit on keys, 32 KiB.
var longColor = "reb" + strings.Repeat("x", 40000)

// RunQueries runs the tests of queries. c must contain QueryPods, in any representation, with the indexes of
// QueryIndexers.
func RunQueries(t *testing.T, c Queried) {
	t.Run("Select", func(t *testing.T) { testSelect(t, c) })
	t.Run("Paged", func(t *testing.T) { testPaged(t, c) })
	t.Run("Each", func(t *testing.T) { testEach(t, c) })
	t.Run("Index", func(t *testing.T) { testQueriedIndex(t, c) })
}

func testSelect(t *testing.T, c Queried) {
	for _, q := range []struct {
		namespace, labels, fields string
		want                      string
	}{
		{"", "", "", "a-b/x a.b/x a/w a/x a/y b/x b/y b/z c"},
		{"a", "", "", "a/w a/x a/y"},
		{"a.b", "", "", "a.b/x"},
		{"c", "", "", ""},
		{"none", "", "", ""},
		{"", "tier=front", "", "a.b/x a/w c"},
		{"", "tier in (front,back),color", "", "a/w a/x b/z c"},
		{"", "!tier", "", "a-b/x a/y b/x b/y"},
		{"", "tier!=front", "", "a-b/x a/x a/y b/x b/y b/z"},
		{"", "tier notin (front,back)", "", "a-b/x a/y b/x b/y"},
		{"", "weight>3", "", "a.b/x"},
		{"", "weight<12", "", "b/x"},
		{"a", "tier=back", "", "a/x"},
		{"", "", "status.phase=Running,spec.nodeName=n2", "a/x b/x"},
		{"", "", "status.phase!=Running", "a.b/x a/y"},
		{"", "", "spec.nodeName=", "a/y"},
		{"", "", "spec.priority=-7", "a.b/x a/x b/x"},
		{"", "", "spec.hostNetwork=true", "a-b/x a/w b/y b/z c"},
		{"", "", "metadata.name=x", "a-b/x a.b/x a/x b/x"},
		{"", "", "metadata.namespace=", "c"},
		{"b", "tier", "spec.nodeName=n1", "b/z"},
	} {
		t.Run(q.namespace+"|"+q.labels+"|"+q.fields, func(t *testing.T) {
			ls, err := labels.Parse(q.labels)
			must(t, err)
			objs, err := c.Select(t.Context(), query.Query{
				Namespace: q.namespace, Labels: ls, Fields: fields.ParseSelectorOrDie(q.fields),
			})
			sameOrder(t, objs, err, q.want)
		})
	}
	for _, q := range []query.Query{{Labels: labels.Nothing()}, {Fields: fields.Nothing()}} {
		objs, err := c.Select(t.Context(), q)
		sameOrder(t, objs, err, "")
	}
}

func testPaged(t *testing.T, c Queried) {
	front := labels.SelectorFromSet(labels.Set{"tier": "front"})
	for _, q := range []struct {
		query query.Query
		want  string
	}{
		{query.Query{Limit: 2}, "a-b/x a.b/x"},
		{query.Query{After: "a/w", Limit: 3}, "a/x a/y b/x"},
		{query.Query{After: "b/z"}, "c"},
		{query.Query{After: "c"}, ""},
		{query.Query{After: "a/wz"}, "a/x a/y b/x b/y b/z c"},
		{query.Query{Namespace: "a", Limit: 2}, "a/w a/x"},
		{query.Query{Namespace: "a", After: "a/x"}, "a/y"},
		{query.Query{Namespace: "a", After: "a.b/x"}, "a/w a/x a/y"},
		{query.Query{Namespace: "a", After: "b/x"}, ""},
		{query.Query{Labels: front, Limit: 2}, "a.b/x a/w"},
		{query.Query{Labels: front, After: "a/w", Limit: 2}, "c"},
		{query.Query{Labels: front, Limit: 100}, "a.b/x a/w c"},
	} {
		objs, err := c.Select(t.Context(), q.query)
		sameOrder(t, objs, err, q.want)
	}
}

func testEach(t *testing.T, c Queried) {
	q := query.Query{Labels: labels.SelectorFromSet(labels.Set{"tier": "front"}), After: "a.b/x"}
	var objs []runtime.Object
	var keys []string
	err := c.Each(t.Context(), q, func(key string, obj runtime.Object) error {
		keys, objs = append(keys, key), append(objs, obj)
		return nil
	})
	sameOrder(t, objs, err, "a/w c")
	same(t, "keys", keys, []string{"a/w", "c"})

	enough := errors.New("enough")
	n := 0
	err = c.Each(t.Context(), query.Query{}, func(string, runtime.Object) error {
		n++
		return enough
	})
	if !errors.Is(err, enough) || n != 1 {
		t.Errorf("%d calls, %v; want one that ends it", n, err)
	}
	n = 0
	must(t, c.Each(t.Context(), query.Query{Limit: 4}, func(string, runtime.Object) error {
		n++
		return nil
	}))
	if n != 4 {
		t.Errorf("%d calls with a limit of 4", n)
	}
}

func testQueriedIndex(t *testing.T, c Queried) {
	want := map[string]string{
		"blue": "a/y", "green": "a/x", "re": "b/z", longColor + "1": "b/y", longColor + "2": "c", "red": "a-b/x a/w a/x",
		"redd": "c", "zz": "b/x",
	}
	values, err := c.IndexValues(t.Context(), "color")
	must(t, err)
	same(t, "values", values, slices.Sorted(maps.Keys(want)))
	for _, value := range append(values, "", "rec", longColor) {
		objs, err := c.ByIndex(t.Context(), "color", value)
		sameOrder(t, objs, err, want[value])
		keys, err := c.IndexKeys(t.Context(), "color", value)
		must(t, err)
		same(t, "keys", keys, strings.Fields(want[value]))
	}
	if _, err := c.ByIndex(t.Context(), "none", ""); !errors.Is(err, store.ErrNoIndex) {
		t.Errorf("ByIndex of no index: %v", err)
	}
}

func sameOrder(t *testing.T, objs []runtime.Object, err error, want string) {
	t.Helper()
	must(t, err)
	if objs == nil {
		t.Error("nil instead of no objects")
	}
	keys := []string{}
	for _, obj := range objs {
		o, err := meta.Accessor(obj)
		must(t, err)
		keys = append(keys, strings.TrimPrefix(o.GetNamespace()+"/"+o.GetName(), "/"))
	}
	if w := strings.Fields(want); !slices.Equal(keys, w) {
		t.Errorf("got %q, want %q", keys, w)
	}
}
