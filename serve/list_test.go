package serve_test

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/serve"
	"github.com/larder-dev/larder/store"
)

// TestListEqualsUpstream checks that lists equal the API server's: in protobuf and JSON, as metadata, of one or all
// namespaces, with label and field selectors.
func TestListEqualsUpstream(t *testing.T) {
	w := newWorld(t, nil)
	w.fill(25)
	for _, media := range []string{"application/json", "application/vnd.kubernetes.protobuf"} {
		for _, namespace := range []string{"", "a", "none"} {
			for name, o := range map[string]metav1.ListOptions{
				"all":        {},
				"label":      {LabelSelector: "app=p"},
				"not label":  {LabelSelector: "app!=p"},
				"node":       {FieldSelector: "spec.nodeName=node-3"},
				"name":       {FieldSelector: "metadata.name=p003"},
				"not phase":  {FieldSelector: "status.phase!=Running"},
				"watchcache": {ResourceVersion: "0"},
			} {
				t.Run(media+"/"+namespace+"/"+name, func(t *testing.T) {
					want, got := w.upstream.Config(), rest.CopyConfig(w.config)
					want.ContentType, got.ContentType = media, media
					all := func(c *rest.Config) (any, any, any) {
						typed, err := kubernetes.NewForConfig(c)
						must(t, err)
						pods, err := typed.CoreV1().Pods(namespace).List(t.Context(), o)
						must(t, err)
						dyn, err := dynamic.NewForConfig(c)
						must(t, err)
						us, err := dyn.Resource(podsResource).Namespace(namespace).List(t.Context(), o)
						must(t, err)
						meta, err := metadata.NewForConfig(c)
						must(t, err)
						ms, err := meta.Resource(podsResource).Namespace(namespace).List(t.Context(), o)
						must(t, err)
						return pods, us, ms
					}
					wantPods, wantUs, wantMeta := all(want)
					gotPods, gotUs, gotMeta := all(got)
					for _, d := range []string{cmp.Diff(wantPods, gotPods), cmp.Diff(wantUs, gotUs), cmp.Diff(wantMeta, gotMeta)} {
						if d != "" {
							t.Fatalf("what is served (+) is not what the API server has (-):\n%s", d)
						}
					}
				})
			}
		}
	}
}

func TestPagesAreOneState(t *testing.T) {
	w := newWorld(t, nil)
	w.fill(20)
	want, err := w.client().CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
	must(t, err)
	got, o := want.DeepCopy(), metav1.ListOptions{Limit: 3}
	got.Items = nil
	for i := 0; ; i++ {
		page, err := w.client().CoreV1().Pods("").List(t.Context(), o)
		must(t, err)
		got.Items = append(got.Items, page.Items...)
		if page.ResourceVersion != want.ResourceVersion {
			t.Fatalf("a page is of %s, not %s", page.ResourceVersion, want.ResourceVersion)
		}
		if left := len(want.Items) - len(got.Items); page.Continue != "" && (page.RemainingItemCount == nil ||
			*page.RemainingItemCount != int64(left)) {
			t.Fatalf("%v objects remain by the page, and %d do", page.RemainingItemCount, left)
		}
		if o.Continue = page.Continue; o.Continue == "" {
			break
		}
		must(t, w.admin.CoreV1().Pods(want.Items[19-i].Namespace).Delete(t.Context(), want.Items[19-i].Name,
			metav1.DeleteOptions{}))
		w.create(newPod("b", "new"+string(rune('a'+i))))
		w.caughtUp()
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Fatal(d)
	}
}

func TestProtobufListAfterChanges(t *testing.T) {
	w := newWorld(t, nil)
	w.fill(20)
	want, got := w.upstream.Config(), rest.CopyConfig(w.config)
	want.ContentType, got.ContentType = "application/vnd.kubernetes.protobuf", "application/vnd.kubernetes.protobuf"
	check := func(what string) {
		t.Helper()
		w.caughtUp()
		for _, namespace := range []string{"", "a"} {
			var lists [2][2]any
			for i, c := range []*rest.Config{want, got} {
				typed, err := kubernetes.NewForConfig(c)
				must(t, err)
				lists[i][0], err = typed.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
				must(t, err)
				partial, err := metadata.NewForConfig(c)
				must(t, err)
				lists[i][1], err = partial.Resource(podsResource).Namespace(namespace).List(t.Context(), metav1.ListOptions{})
				must(t, err)
			}
			if d := cmp.Diff(lists[0], lists[1]); d != "" {
				t.Fatalf("%s: what is served (+) is not what the API server has (-):\n%s", what, d)
			}
		}
	}
	check("first")
	w.create(newPod("a", "longer"))
	check("created")
	pods := w.admin.CoreV1().Pods("a")
	_, err := pods.Patch(t.Context(), "longer", types.MergePatchType,
		fmt.Appendf(nil, `{"metadata":{"annotations":{"a":%q}}}`, strings.Repeat("x", 300)), metav1.PatchOptions{})
	must(t, err)
	check("updated")
	must(t, pods.Delete(t.Context(), "longer", metav1.DeleteOptions{}))
	must(t, pods.Delete(t.Context(), "p000", metav1.DeleteOptions{}))
	check("deleted")
}

// TestListWhileObjectsChange checks that a list of several pages has each object of its state once, although objects
// before, in and after the next page change while the first page is sent (issue 37).
func TestListWhileObjectsChange(t *testing.T) {
	for path, want := range map[string]int{"pods": 1701, "pods?limit=1000": 1701, "namespaces/default/pods": 1700} {
		st, err := store.Open(filepath.Join(t.TempDir(), "m.db"), store.Options{})
		must(t, err)
		defer st.Close()
		c := openPods(t, st)
		elsewhere := podOf(1700, "11")
		elsewhere.SetNamespace("elsewhere")
		all := []any{elsewhere}
		for n := range 1700 {
			all = append(all, podOf(n, "11"))
		}
		must(t, c.Indexer().Replace(all, "11"))
		h, err := serve.New(serve.Store(st), serve.Options{})
		must(t, err)
		defer h.Close()
		change := func() {
			var b entry.Batch
			for i, n := range []int{3, 499, 500, 501, 700, 999, 1000, 1001, 1400, 1699, 1700} {
				u := podOf(n, fmt.Sprint(20+i))
				if n%2 == 1 {
					b.Ops = append(b.Ops, entry.Op{Type: entry.Delete, Object: u})
				} else {
					b.Ops = append(b.Ops, entry.Op{Object: u})
				}
			}
			elsewhere := elsewhere.DeepCopy()
			elsewhere.SetResourceVersion("40")
			b.Ops, b.ResourceVersion = append(b.Ops, entry.Op{Object: elsewhere}), "40"
			_, err := c.Apply(t.Context(), b)
			must(t, err)
		}
		var list corev1.PodList
		get := func(path string, w *onWrite) {
			h.ServeHTTP(w, httptest.NewRequest("GET", "/api/v1/"+path, nil))
			page := corev1.PodList{}
			must(t, json.Unmarshal(w.Body.Bytes(), &page))
			list.Items, list.ListMeta = append(list.Items, page.Items...), page.ListMeta
		}
		get(path, &onWrite{httptest.NewRecorder(), change})
		if list.Continue != "" {
			get(path+"&continue="+list.Continue, &onWrite{ResponseRecorder: httptest.NewRecorder()})
		}
		if list.ResourceVersion != "11" || len(list.Items) != want {
			t.Errorf("%s: %d objects at %s, want %d at 11", path, len(list.Items), list.ResourceVersion, want)
		}
		for i, pod := range list.Items {
			if want := fmt.Sprintf("p%04d", i); pod.Name != want || pod.ResourceVersion != "11" {
				t.Fatalf("%s: object %d is %s at %s, want %s at 11", path, i, pod.Name, pod.ResourceVersion, want)
			}
		}
	}
}
