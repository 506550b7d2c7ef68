package serve_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
)

// TestListEqualsUpstream: in protobuf and JSON, as metadata, of a namespace or of all, by labels and fields, the
// objects are the API server's.
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

// TestPagesAreOneState: pages of a list are of one moment though objects change between them.
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

// TestProtobufListAfterChanges: the length of a protobuf list, which precedes it, follows what changes after the first.
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
