package storetest

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
)

// RunIndexer runs the tests that every cache.Indexer of pods must pass. open returns an empty indexer with the key
// function cache.MetaNamespaceKeyFunc or its variant for tombstones.
func RunIndexer(t *testing.T, open func(t *testing.T, indexers cache.Indexers) cache.Indexer) {
	tests := map[string]func(*testing.T, cache.Indexer){
		"Empty":           testEmpty,
		"AddUpdateDelete": testAddUpdateDelete,
		"LostLabel":       testLostLabel,
		"Index":           testIndex,
		"IndexErrors":     testIndexErrors,
		"AddIndexers":     testAddIndexers,
		"Replace":         testReplace,
		"ResourceVersion": testResourceVersion,
		"KeyErrors":       testKeyErrors,
		"Lister":          testLister,
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			test(t, open(t, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc, "color": ByColor}))
		})
	}
}

func testEmpty(t *testing.T, i cache.Indexer) {
	if l := i.List(); l == nil || len(l) != 0 {
		t.Errorf("List: %v", l)
	}
	if l := i.ListKeys(); l == nil || len(l) != 0 {
		t.Errorf("ListKeys: %v", l)
	}
	if obj, exists, err := i.GetByKey("a/x"); obj != nil || exists || err != nil {
		t.Errorf("GetByKey: %v, %v, %v", obj, exists, err)
	}
	if l, err := i.ByIndex("color", "red"); len(l) != 0 || err != nil {
		t.Errorf("ByIndex: %v, %v", l, err)
	}
	if err := i.Delete(Pod("a/x", "1", "1")); err != nil {
		t.Errorf("delete of what is not there: %v", err)
	}
	if err := i.Resync(); err != nil {
		t.Errorf("Resync: %v", err)
	}
}

func testAddUpdateDelete(t *testing.T, i cache.Indexer) {
	must(t, i.Add(Pod("a/x", "1", "1")))
	must(t, i.Add(Pod("b/x", "2", "2")))
	must(t, i.Add(Pod("c", "3", "3")))
	must(t, i.Update(Pod("a/x", "1", "4", ColorLabel, "red")))
	must(t, i.Update(Pod("d/new", "5", "5"))) // adds the missing object
	must(t, i.Add(Pod("b/x", "2", "6")))      // replaces the existing object
	must(t, i.Delete(Pod("c", "3", "7")))
	want := []string{"a/x uid=1 rv=4 color=red", "b/x uid=2 rv=6", "d/new uid=5 rv=5"}
	same(t, "List", sums(t, i.List()), want)
	same(t, "ListKeys", slices.Sorted(slices.Values(i.ListKeys())), []string{"a/x", "b/x", "d/new"})
	obj, exists, err := i.Get(Pod("a/x", "", ""))
	if err != nil || !exists || Sum(obj.(*corev1.Pod)) != want[0] {
		t.Errorf("Get: %v, %v, %v", obj, exists, err)
	}
	if obj, exists, err := i.GetByKey("c"); obj != nil || exists || err != nil {
		t.Errorf("GetByKey of what was deleted: %v, %v, %v", obj, exists, err)
	}
}

func testLostLabel(t *testing.T, i cache.Indexer) {
	must(t, i.Add(Pod("a/x", "1", "1", ColorLabel, "red.green")))
	must(t, i.Add(Pod("a/y", "2", "2", ColorLabel, "red")))
	sameKeys(t, i, "color", "red", "a/x", "a/y")
	must(t, i.Update(Pod("a/x", "1", "3", ColorLabel, "green.blue")))
	sameKeys(t, i, "color", "red", "a/y")
	sameKeys(t, i, "color", "green", "a/x")
	sameKeys(t, i, "color", "blue", "a/x")
	must(t, i.Update(Pod("a/x", "1", "4")))
	must(t, i.Delete(Pod("a/y", "2", "5")))
	for _, color := range []string{"red", "green", "blue"} {
		sameKeys(t, i, "color", color)
	}
	if values := i.ListIndexFuncValues("color"); len(values) != 0 {
		t.Errorf("values that nothing has: %q", values)
	}
}

func testIndex(t *testing.T, i cache.Indexer) {
	must(t, i.Add(Pod("a/x", "1", "1", ColorLabel, "red.green.red")))
	must(t, i.Add(Pod("b/y", "2", "2", ColorLabel, "green")))
	must(t, i.Add(Pod("b/z", "3", "3")))
	must(t, i.Add(Pod("c", "4", "4")))
	same(t, "values", slices.Sorted(slices.Values(i.ListIndexFuncValues("color"))), []string{"green", "red"})
	same(t, "values", slices.Sorted(slices.Values(i.ListIndexFuncValues(cache.NamespaceIndex))), []string{"", "a", "b"})
	sameKeys(t, i, cache.NamespaceIndex, "b", "b/y", "b/z")
	sameKeys(t, i, cache.NamespaceIndex, "", "c")
	objs, err := i.Index("color", Pod("other", "", "", ColorLabel, "green.red"))
	must(t, err)
	same(t, "Index with two values", sums(t, objs),
		[]string{"a/x uid=1 rv=1 color=red.green.red", "b/y uid=2 rv=2 color=green"})
	objs, err = i.Index(cache.NamespaceIndex, &metav1.ObjectMeta{Namespace: "b"})
	must(t, err)
	same(t, "Index of a bare ObjectMeta", sums(t, objs), []string{"b/y uid=2 rv=2 color=green", "b/z uid=3 rv=3"})
	if objs, err := i.Index("color", Pod("other", "", "")); err != nil || len(objs) != 0 {
		t.Errorf("Index of an object without a value: %v, %v", objs, err)
	}
}

func testIndexErrors(t *testing.T, i cache.Indexer) {
	if _, err := i.ByIndex("none", "x"); err == nil {
		t.Error("ByIndex of no index: no error")
	}
	if _, err := i.IndexKeys("none", "x"); err == nil {
		t.Error("IndexKeys of no index: no error")
	}
	if _, err := i.Index("none", Pod("a/x", "", "")); err == nil {
		t.Error("Index of no index: no error")
	}
	if _, err := i.Index("color", Pod("a/x", "", "", FailLabel, "error")); err == nil {
		t.Error("Index with a function that fails: no error")
	}
	if values := i.ListIndexFuncValues("none"); len(values) != 0 {
		t.Errorf("values of no index: %q", values)
	}
}

func testAddIndexers(t *testing.T, i cache.Indexer) {
	for n := range 50 {
		must(t, i.Add(Pod(fmt.Sprintf("ns%d/pod%d", n%5, n%7), "uid", "1")))
	}
	must(t, i.AddIndexers(cache.Indexers{"name": ByName}))
	var want []string
	for n := range 5 {
		want = append(want, fmt.Sprintf("ns%d/pod3", n))
	}
	sameKeys(t, i, "name", "pod3", want...)
	must(t, i.Delete(Pod("ns0/pod3", "uid", "2")))
	sameKeys(t, i, "name", "pod3", want[1:]...)
	if err := i.AddIndexers(cache.Indexers{"name": ByName, "other": ByName}); err == nil {
		t.Error("an index of a name that is taken was added")
	}
	var names []string
	for name := range i.GetIndexers() {
		names = append(names, name)
	}
	slices.Sort(names)
	same(t, "GetIndexers", names, []string{"color", "name", cache.NamespaceIndex})
}

func testReplace(t *testing.T, i cache.Indexer) {
	must(t, i.Add(Pod("a/x", "1", "1", ColorLabel, "red")))
	must(t, i.Add(Pod("a/y", "2", "2", ColorLabel, "red")))
	must(t, i.Replace([]any{Pod("a/y", "2", "2", ColorLabel, "green"), Pod("b/z", "3", "3", ColorLabel, "red")}, "10"))
	same(t, "List", sums(t, i.List()), []string{"a/y uid=2 rv=2 color=green", "b/z uid=3 rv=3 color=red"})
	sameKeys(t, i, "color", "red", "b/z")
	sameKeys(t, i, "color", "green", "a/y")
	if rv := i.LastStoreSyncResourceVersion(); rv != "10" {
		t.Errorf("resourceVersion after Replace: %q", rv)
	}
	if err := i.Replace([]any{Pod("c/c", "4", "4"), "no object"}, "11"); err == nil {
		t.Error("an object without a key was taken")
	}
	same(t, "keys after a Replace that failed", slices.Sorted(slices.Values(i.ListKeys())), []string{"a/y", "b/z"})
	must(t, i.Replace(nil, "12"))
	if l := i.List(); len(l) != 0 {
		t.Errorf("after a Replace with nothing: %v", l)
	}
}

func testResourceVersion(t *testing.T, i cache.Indexer) {
	if rv := i.LastStoreSyncResourceVersion(); rv != "" {
		t.Errorf("of nothing: %q", rv)
	}
	must(t, i.Add(Pod("a/x", "1", "5")))
	if rv := i.LastStoreSyncResourceVersion(); rv != "5" {
		t.Errorf("after Add: %q", rv)
	}
	i.Bookmark("9")
	if rv := i.LastStoreSyncResourceVersion(); rv != "9" {
		t.Errorf("after Bookmark: %q", rv)
	}
	must(t, i.Delete(Pod("a/x", "1", "12")))
	if rv := i.LastStoreSyncResourceVersion(); rv != "12" {
		t.Errorf("after Delete: %q", rv)
	}
}

func testKeyErrors(t *testing.T, i cache.Indexer) {
	var want cache.KeyError
	for what, err := range map[string]error{
		"Add": i.Add("no object"), "Update": i.Update("no object"), "Delete": i.Delete("no object"),
		"Replace": i.Replace([]any{"no object"}, "1"),
	} {
		if !errors.As(err, &want) {
			t.Errorf("%s of what has no key: %v", what, err)
		}
	}
	if _, _, err := i.Get("no object"); !errors.As(err, &want) {
		t.Errorf("Get of what has no key: %v", err)
	}
}

func testLister(t *testing.T, i cache.Indexer) {
	for n, key := range []string{"a/x", "a/y", "b/x"} {
		must(t, i.Add(Pod(key, key, fmt.Sprint(n+1), ColorLabel, "red")))
	}
	lister := listers.NewPodLister(i)
	pods, err := lister.Pods("a").List(labels.Everything())
	if err != nil || len(pods) != 2 {
		t.Errorf("List of a namespace: %d pods, %v", len(pods), err)
	}
	pods, err = lister.List(labels.SelectorFromSet(labels.Set{ColorLabel: "red"}))
	if err != nil || len(pods) != 3 {
		t.Errorf("List of all namespaces: %d pods, %v", len(pods), err)
	}
	pod, err := lister.Pods("b").Get("x")
	if err != nil || pod.Namespace != "b" {
		t.Errorf("Get: %v, %v", pod, err)
	}
	if _, err := lister.Pods("b").Get("y"); err == nil {
		t.Error("Get of what is not there: no error")
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func sums(t *testing.T, objs []any) []string {
	t.Helper()
	var list []string
	for _, obj := range objs {
		pod, ok := obj.(*corev1.Pod)
		if !ok {
			t.Fatalf("a %T is stored", obj)
		}
		list = append(list, Sum(pod))
	}
	slices.Sort(list)
	return list
}

func same(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

func sameKeys(t *testing.T, i cache.Indexer, index, value string, want ...string) {
	t.Helper()
	keys, err := i.IndexKeys(index, value)
	must(t, err)
	slices.Sort(keys)
	same(t, "IndexKeys "+index+" "+value, keys, want)
	objs, err := i.ByIndex(index, value)
	must(t, err)
	var got []string
	for _, obj := range objs {
		key, err := cache.MetaNamespaceKeyFunc(obj)
		must(t, err)
		got = append(got, key)
	}
	slices.Sort(got)
	same(t, "ByIndex "+index+" "+value, got, want)
}
