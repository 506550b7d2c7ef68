package factory

import (
	"reflect"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
)

// marker is an informer that says which resource it was registered for.
type marker struct {
	cache.SharedIndexInformer
	gvr schema.GroupVersionResource
}

func (m marker) LastSyncResourceVersion() string { return m.gvr.String() }

// TestResourcesAreComplete: the table has every resource that client-go's factory knows, with the type that
// it knows it by.
func TestResourcesAreComplete(t *testing.T) {
	stock := informers.NewSharedInformerFactory(nil, 0)
	ours := map[schema.GroupVersionResource]bool{}
	for _, r := range resources() {
		ours[r.GroupVersionResource] = true
		stock.InformerFor(r.example, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer {
			return marker{gvr: r.GroupVersionResource}
		})
	}
	for _, r := range resources() {
		generic, err := stock.ForResource(r.GroupVersionResource)
		if err != nil {
			t.Error(err)
		} else if got := generic.Informer().LastSyncResourceVersion(); got != r.String() {
			t.Errorf("%s is registered under the type of %s", r, got)
		}
	}
	known := 0
	for gvk := range scheme.Scheme.AllKnownTypes() {
		gvr, _ := meta.UnsafeGuessKindToResource(gvk)
		if !ours[gvr] {
			if _, err := stock.ForResource(gvr); err == nil {
				t.Errorf("%s is missing", gvr)
			}
			continue
		}
		known++
	}
	// The names that were guessed are right, so what is missing would have been found.
	if known != len(ours) || known != len(resources()) {
		t.Errorf("%d resources of %d were found by their kinds", known, len(resources()))
	}
}

// TestResourcesAsk: each row asks the client for what it says.
func TestResourcesAsk(t *testing.T) {
	for _, r := range resources() {
		client := &fake.Clientset{}
		client.AddWatchReactor("*", clienttesting.DefaultWatchReactor(nil, nil))
		asked := r.requests(client, "somewhere")
		list, err := asked.list(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Errorf("%s: list: %v", r, err)
			continue
		}
		if items, err := meta.GetItemsPtr(list); err != nil ||
			reflect.TypeOf(items).Elem().Elem() != reflect.TypeOf(r.example).Elem() {
			t.Errorf("%s: listed a %T, want those of %T", r, list, r.example)
		}
		if _, err := asked.watch(t.Context(), metav1.ListOptions{}); err != nil {
			t.Errorf("%s: watch: %v", r, err)
		}
		actions := client.Actions()
		namespace := ""
		if r.namespaced {
			namespace = "somewhere"
		}
		if len(actions) != 2 {
			t.Errorf("%s: %v", r, actions)
			continue
		}
		for i, verb := range []string{"list", "watch"} {
			if a := actions[i]; a.GetVerb() != verb || a.GetResource() != r.GroupVersionResource ||
				a.GetNamespace() != namespace {
				t.Errorf("%s: asked for %+v", r, a)
			}
		}
		if gvks, _, err := scheme.Scheme.ObjectKinds(r.example); err != nil || gvks[0].Kind != r.info().Kind ||
			gvks[0].GroupVersion() != r.GroupVersion() {
			t.Errorf("%s: %v is called %q", r, gvks, r.info().Kind)
		}
	}
}

func TestResourcesOf(t *testing.T) {
	for want, examples := range map[string][]runtime.Object{
		"*v1.Pod is listed twice": {&corev1.Pod{}, &corev1.Node{}, &corev1.Pod{}},
		"client-go has no typed informer for *v1.PodList; use NewDynamicSharedInformerFactory, or informer.New": {&corev1.PodList{}},
		"client-go has no typed informer for <nil>; use NewDynamicSharedInformerFactory, or informer.New":       {nil},
		"no types are listed: nothing would be stored; " +
			"list an example object of each type whose informer is to be persistent": nil,
	} {
		if _, err := resourcesOf(examples); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if found, err := resourcesOf([]runtime.Object{&corev1.Node{}, &corev1.Pod{}}); err != nil || len(found) != 2 ||
		found[0].Resource != "nodes" {
		t.Errorf("%v, %v", found, err)
	}
}
