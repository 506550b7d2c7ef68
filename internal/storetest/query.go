package storetest

import (
	"context"
	"errors"
	"fmt"
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
)

// Queried is the part of store.Interface that answers queries. store.View has it too.
type Queried interface {
	Select(ctx context.Context, q store.Query) ([]runtime.Object, error)
	Each(ctx context.Context, q store.Query, fn func(key string, obj runtime.Object) error) error
	IndexRange(ctx context.Context, index, from, to string) ([]runtime.Object, error)
	IndexPrefix(ctx context.Context, index, prefix string) ([]runtime.Object, error)
}

// QueryIndexers are the index functions that RunQueries needs, for objects of any type.
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

// longColor is too long for bbolt's keys.
var longColor = "reb" + strings.Repeat("x", 40000)

// RunQueries runs the tests that everything that answers queries must pass.
// It must hold QueryPods, by whatever representation, with QueryIndexers.
func RunQueries(t *testing.T, c Queried) {
	t.Run("Select", func(t *testing.T) { testSelect(t, c) })
	t.Run("Paged", func(t *testing.T) { testPaged(t, c) })
	t.Run("Each", func(t *testing.T) { testEach(t, c) })
	t.Run("Index", func(t *testing.T) { testRanges(t, c) })
}

// RunSealedQueries is RunQueries for a collection that is sealed.
func RunSealedQueries(t *testing.T, c Queried) {
	t.Run("Select", func(t *testing.T) { testSelect(t, c) })
	t.Run("Paged", func(t *testing.T) { testPaged(t, c) })
	t.Run("Each", func(t *testing.T) { testEach(t, c) })
	t.Run("Index", func(t *testing.T) { testNoRanges(t, c) })
}

func testNoRanges(t *testing.T, c Queried) {
	for _, bounds := range [][2]string{{"", ""}, {"red", "redd"}, {"red", "red"}} {
		if objs, err := c.IndexRange(t.Context(), "color", bounds[0], bounds[1]); !errors.Is(err, store.ErrSealedIndex) || objs != nil {
			t.Errorf("IndexRange %q: %d objects, %v", bounds, len(objs), err)
		}
		if objs, err := c.IndexPrefix(t.Context(), "color", bounds[0]); !errors.Is(err, store.ErrSealedIndex) || objs != nil {
			t.Errorf("IndexPrefix %q: %d objects, %v", bounds[0], len(objs), err)
		}
	}
	if _, err := c.IndexRange(t.Context(), "none", "", ""); !errors.Is(err, store.ErrNoIndex) {
		t.Errorf("IndexRange of no index: %v", err)
	}
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
			objs, err := c.Select(t.Context(), store.Query{
				Namespace: q.namespace, Labels: ls, Fields: fields.ParseSelectorOrDie(q.fields),
			})
			sameOrder(t, objs, err, q.want)
		})
	}
	for _, q := range []store.Query{{Labels: labels.Nothing()}, {Fields: fields.Nothing()}} {
		objs, err := c.Select(t.Context(), q)
		sameOrder(t, objs, err, "")
	}
}

func testPaged(t *testing.T, c Queried) {
	front := labels.SelectorFromSet(labels.Set{"tier": "front"})
	for _, q := range []struct {
		query store.Query
		want  string
	}{
		{store.Query{Limit: 2}, "a-b/x a.b/x"},
		{store.Query{After: "a/w", Limit: 3}, "a/x a/y b/x"},
		{store.Query{After: "b/z"}, "c"},
		{store.Query{After: "c"}, ""},
		{store.Query{After: "a/wz"}, "a/x a/y b/x b/y b/z c"},
		{store.Query{Namespace: "a", Limit: 2}, "a/w a/x"},
		{store.Query{Namespace: "a", After: "a/x"}, "a/y"},
		{store.Query{Namespace: "a", After: "a.b/x"}, "a/w a/x a/y"},
		{store.Query{Namespace: "a", After: "b/x"}, ""},
		{store.Query{Labels: front, Limit: 2}, "a.b/x a/w"},
		{store.Query{Labels: front, After: "a/w", Limit: 2}, "c"},
		{store.Query{Labels: front, Limit: 100}, "a.b/x a/w c"},
	} {
		objs, err := c.Select(t.Context(), q.query)
		sameOrder(t, objs, err, q.want)
	}
}

func testEach(t *testing.T, c Queried) {
	q := store.Query{Labels: labels.SelectorFromSet(labels.Set{"tier": "front"}), After: "a.b/x"}
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
	err = c.Each(t.Context(), store.Query{}, func(string, runtime.Object) error {
		n++
		return enough
	})
	if !errors.Is(err, enough) || n != 1 {
		t.Errorf("%d calls, %v; want one that ends it", n, err)
	}
	n = 0
	must(t, c.Each(t.Context(), store.Query{Limit: 4}, func(string, runtime.Object) error {
		n++
		return nil
	}))
	if n != 4 {
		t.Errorf("%d calls with a limit of 4", n)
	}
}

func testRanges(t *testing.T, c Queried) {
	for _, r := range []struct{ from, to, want string }{
		{"", "", "a/y a/x b/z b/y c a-b/x a/w b/x"},
		{"red", "", "a-b/x a/w a/x c b/x"},
		{"red", "redd", "a-b/x a/w a/x"},
		{"re", "red", "b/z b/y c"},
		{"reb", "rec", "b/y c"},
		{longColor + "1", longColor + "2", "b/y"},
		{longColor + "2", "", "c a-b/x a/w a/x b/x"},
		{"green", "re", "a/x"},
		{"red", "red", ""},
		{"red", "blue", ""},
		{"zz", "", "b/x"},
		{"\xff\xff", "", ""},
	} {
		objs, err := c.IndexRange(t.Context(), "color", r.from, r.to)
		sameOrder(t, objs, err, r.want)
	}
	for prefix, want := range map[string]string{
		"": "a/y a/x b/z b/y c a-b/x a/w b/x", "re": "b/z b/y c a-b/x a/w a/x", "red": "a-b/x a/w a/x c", "redd": "c",
		"reb": "b/y c", longColor: "b/y c", "zz": "b/x", "\xff\xff\xff": "",
	} {
		objs, err := c.IndexPrefix(t.Context(), "color", prefix)
		sameOrder(t, objs, err, want)
	}
	if _, err := c.IndexRange(t.Context(), "none", "", ""); !errors.Is(err, store.ErrNoIndex) {
		t.Errorf("IndexRange of no index: %v", err)
	}
	if _, err := c.IndexPrefix(t.Context(), "none", ""); !errors.Is(err, store.ErrNoIndex) {
		t.Errorf("IndexPrefix of no index: %v", err)
	}
}

// sameOrder compares keys, separated by blanks.
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
