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
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/entry"
)

// marker is a fake informer whose LastSyncResourceVersion names the resource that it was registered for.
type marker struct {
	cache.SharedIndexInformer
	gvr schema.GroupVersionResource
}

func (m marker) LastSyncResourceVersion() string { return m.gvr.String() }

// examples returns an object of each type for which client-go's factory makes informers.
func examples(t *testing.T) (all []runtime.Object) {
	t.Helper()
	getters(reflect.TypeFor[informers.SharedInformerFactory](), func(_ string, versions reflect.Type) {
		getters(versions, func(_ string, resources reflect.Type) {
			getters(resources, func(_ string, informer reflect.Type) {
				lister, _ := informer.MethodByName("Lister")
				list, ok := lister.Type.Out(0).MethodByName("List")
				if !ok {
					t.Fatalf("%s has no List", lister.Type.Out(0))
				}
				all = append(all, reflect.New(list.Type.Out(0).Elem().Elem()).Interface().(runtime.Object))
			})
		})
	})
	if len(all) < 100 {
		t.Fatalf("client-go has informers for %d types", len(all))
	}
	return all
}

// getters calls fn for each method of t without arguments that returns an interface, such as Core().V1().Pods().
func getters(t reflect.Type, fn func(name string, result reflect.Type)) {
	for m := range t.Methods() {
		if m.Type.NumIn() == 0 && m.Type.NumOut() == 1 && m.Type.Out(0).Kind() == reflect.Interface {
			fn(m.Name, m.Type.Out(0))
		}
	}
}

// TestResourcesAreComplete checks that resourcesOf finds each type of client-go's factory under client-go's name.
func TestResourcesAreComplete(t *testing.T) {
	stock := informers.NewSharedInformerFactory(nil, 0)
	all, err := resourcesOf(examples(t))
	must(t, err)
	for _, r := range all {
		stock.InformerFor(r.example, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer {
			return marker{gvr: r.GroupVersionResource}
		})
	}
	for _, r := range all {
		generic, err := stock.ForResource(r.GroupVersionResource)
		if err != nil {
			t.Error(err)
		} else if got := generic.Informer().LastSyncResourceVersion(); got != r.String() {
			t.Errorf("%s is registered under the type of %s", r, got)
		}
	}
}

// clientFor returns the clientset's client of the objects, such as CoreV1().Pods(namespace).
func clientFor(t *testing.T, clientset kubernetes.Interface, example runtime.Object) (reflect.Value, bool) {
	t.Helper()
	for group := range reflect.TypeFor[kubernetes.Interface]().Methods() {
		for method := range group.Type.Out(0).Methods() {
			get, ok := method.Type.Out(0).MethodByName("Get")
			if !ok || get.Type.Out(0) != reflect.TypeOf(example) {
				continue
			}
			var in []reflect.Value
			if method.Type.NumIn() > 0 {
				in = append(in, reflect.ValueOf("somewhere"))
			}
			of := reflect.ValueOf(clientset).MethodByName(group.Name).Call(nil)[0]
			return of.MethodByName(method.Name).Call(in)[0], len(in) > 0
		}
	}
	t.Fatalf("the clientset has no %T", example)
	return reflect.Value{}, false
}

// TestTypedListWatchRequests checks that a fake gets the requests that its own client of the type would make.
func TestTypedListWatchRequests(t *testing.T) {
	all, err := resourcesOf(examples(t))
	must(t, err)
	for _, r := range all {
		client := &fake.Clientset{}
		client.AddWatchReactor("*", clienttesting.DefaultWatchReactor(nil, nil))
		stock, namespaced := clientFor(t, client, r.example)
		if namespaced != r.Namespaced {
			t.Errorf("%s: namespaced %v", r, r.Namespaced)
		}
		id := entry.Identity{GroupVersionResource: r.GroupVersionResource}
		if namespaced {
			id.Namespace = "somewhere"
		}
		lw, err := typedListWatch(client, r, id)
		must(t, err)
		list, err := cache.ToListerWatcherWithContext(lw).ListWithContext(t.Context(), metav1.ListOptions{})
		must(t, err)
		if items, err := meta.GetItemsPtr(list); err != nil ||
			reflect.TypeOf(items).Elem().Elem() != reflect.TypeOf(r.example).Elem() {
			t.Errorf("%s: listed a %T, want those of %T", r, list, r.example)
		}
		_, err = cache.ToListerWatcherWithContext(lw).WatchWithContext(t.Context(), metav1.ListOptions{})
		must(t, err)
		ours := client.Actions()
		client.ClearActions()
		in := []reflect.Value{reflect.ValueOf(t.Context()), reflect.ValueOf(metav1.ListOptions{})}
		stock.MethodByName("List").Call(in)
		stock.MethodByName("Watch").Call(in)
		if want := client.Actions(); len(want) != 2 || !reflect.DeepEqual(ours, want) {
			t.Errorf("%s: asked for %+v, want %+v", r, ours, want)
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
