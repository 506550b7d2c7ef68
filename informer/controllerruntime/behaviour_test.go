package controllerruntime

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// behaviour is one use of a controller-runtime cache. run returns the observed results, line by line.
type behaviour struct {
	opts cache.Options
	run  func(w *world) []string
	want []string
}

// TestBehaviour checks that Larder's cache behaves like controller-runtime's own on a server with equal objects.
func TestBehaviour(t *testing.T) {
	for _, table := range []map[string]behaviour{reading, indexing, informers, scoping, bodies} {
		for name, b := range table {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				stock := b.on(t, "stock", func(*testing.T) cache.NewCacheFunc { return stockCache })
				ours := b.on(t, "larder", persistent)
				if diff := cmp.Diff(stock, ours); diff != "" {
					t.Errorf("stock (-) and ours (+):\n%s", diff)
				}
				if diff := cmp.Diff(b.want, stock); b.want != nil && diff != "" {
					t.Errorf("expected (-) and stock (+):\n%s", diff)
				}
				if len(stock) == 0 {
					t.Error("nothing was noted")
				}
			})
		}
	}
}

func (b behaviour) on(t *testing.T, name string, newCache func(*testing.T) cache.NewCacheFunc) (out []string) {
	t.Run(name, func(t *testing.T) {
		w := newWorld(t, startServer(t), newCache(t))
		w.create(b.opts)
		out = b.run(w)
	})
	return out
}

// stockCache returns controller-runtime's own cache, with a fix for its metadata informers: they leak the goroutine of
// a watch.Filter if they stop while it delivers an event.
func stockCache(config *rest.Config, opts cache.Options) (cache.Cache, error) {
	opts.NewInformer = func(lw toolscache.ListerWatcher, obj runtime.Object, resync time.Duration,
		indexers toolscache.Indexers) toolscache.SharedIndexInformer {
		contextual := toolscache.ToListerWatcherWithContext(lw)
		return toolscache.NewSharedIndexInformer(&toolscache.ListWatch{
			ListWithContextFunc: contextual.ListWithContext,
			WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
				w, err := contextual.WatchWithContext(ctx, o)
				return drained{w}, err
			},
		}, obj, resync, indexers)
	}
	return cache.New(config, opts)
}

type drained struct{ watch.Interface }

func (d drained) Stop() {
	d.Interface.Stop()
	for range d.ResultChan() {
	}
}

func node(obj client.Object) []string { return []string{obj.(*corev1.Pod).Spec.NodeName} }

func app(obj client.Object) []string { return []string{obj.GetLabels()["app"]} }

func byField(field, value string) client.ListOption { return client.MatchingFields{field: value} }

var reading = map[string]behaviour{
	"get and list with selectors": {
		run: func(w *world) []string {
			w.run()
			pod := &corev1.Pod{}
			missing := w.Get(w.ctx, client.ObjectKey{Namespace: "a", Name: "none"}, pod)
			found := w.Get(w.ctx, client.ObjectKey{Namespace: "a", Name: "pod-1"}, pod)
			inNode := w.Get(w.ctx, client.ObjectKey{Namespace: "ignored", Name: "node-x"}, &corev1.Node{})
			list := &corev1.PodList{}
			must(w.T, w.List(w.ctx, list, client.Limit(3)))
			return []string{
				fmt.Sprint(missing, apierrors.IsNotFound(missing)),
				fmt.Sprintf("%v %s %s %s", found, pod.Name, pod.Kind, pod.ResourceVersion),
				fmt.Sprint(inNode),
				w.keys(&corev1.PodList{}),
				w.keys(&corev1.PodList{}, client.InNamespace("b")),
				w.keys(&corev1.PodList{}, client.InNamespace("none")),
				w.keys(&corev1.PodList{}, client.MatchingLabels{"app": "db"}),
				w.keys(&corev1.PodList{}, client.InNamespace("a"), client.MatchingLabels{"app": "web"}),
				w.keys(&corev1.NodeList{}),
				fmt.Sprintf("%d %s", len(list.Items), list.Continue),
				w.keys(&corev1.PodList{}, client.Continue("x")),
				w.keys(&corev1.PodList{},
					client.MatchingFieldsSelector{Selector: fields.OneTermNotEqualSelector("spec.nodeName", "x")}),
			}
		},
		want: []string{
			`Pod "none" not found true`,
			"<nil> pod-1 Pod 1003",
			"<nil>",
			"[a/pod-0 a/pod-1 a/pod-2 b/pod-3 b/pod-4 c/pod-5 c/pod-6 d/pod-7]",
			"[b/pod-3 b/pod-4]",
			"[]",
			"[a/pod-1 b/pod-3 c/pod-5 d/pod-7]",
			"[a/pod-0 a/pod-2]",
			"[/node-x /node-y]",
			"3 continue-not-supported",
			"error: continue list option is not supported by the cache",
			"error: non-exact field matches are not supported by the cache",
		},
	},
	"not started": {
		run: func(w *world) []string {
			err := w.Get(w.ctx, client.ObjectKey{Namespace: "a", Name: "pod-1"}, &corev1.Pod{})
			var notStarted *cache.ErrCacheNotStarted
			ctx, cancel := context.WithCancel(w.ctx)
			cancel()
			return []string{fmt.Sprint(errors.As(err, &notStarted)), fmt.Sprint(w.WaitForCacheSync(ctx))}
		},
		want: []string{"true", "false"},
	},
	"ReaderFailOnMissingInformer": {
		opts: cache.Options{ReaderFailOnMissingInformer: true},
		run: func(w *world) []string {
			w.run()
			get := func() string {
				err := w.Get(w.ctx, client.ObjectKey{Namespace: "a", Name: "pod-1"}, &corev1.Pod{})
				var notCached *cache.ErrResourceNotCached
				return fmt.Sprint(err, " ", errors.As(err, &notCached))
			}
			before := get()
			_, err := w.GetInformer(w.ctx, &corev1.Pod{})
			return []string{before, fmt.Sprint(err), get(), w.keys(&corev1.NodeList{})}
		},
		want: []string{"/v1, Kind=Pod is not cached true", "<nil>", "<nil> false", "error: /v1, Kind=Node is not cached"},
	},
	"the first Get makes the informer": {
		run: func(w *world) []string {
			w.run()
			var out []string
			for _, obj := range []client.Object{&corev1.Pod{}, unstructuredOf(podKind), metadataOf(podKind),
				unstructuredOf(widgetKind)} {
				// The cache uses the caller's object as an informer's example, and the caller then overwrites that object.
				obj.SetName("of the caller")
				key := client.ObjectKey{Namespace: "a", Name: "pod-1"}
				gvr := pods
				if kind := obj.GetObjectKind().GroupVersionKind().Kind; kind == widgetKind.Kind {
					key.Name, gvr = "w-1", widgets
				}
				for _, note := range []string{"one", "two"} {
					annotate(w.T, w.srv, gvr, key.String(), fmt.Sprintf("%s for %T", note, obj))
					w.eventually("the change", func() bool {
						must(w.T, w.Get(w.ctx, key, obj))
						return strings.HasPrefix(noteOf(obj), note)
					})
				}
				out = append(out, whole(w.T, obj))
			}
			return out
		},
	},
	"the cache follows the server": {
		run: func(w *world) []string {
			w.run()
			out := []string{w.keys(&corev1.PodList{}, client.InNamespace("a"))}
			must(w.T, w.srv.Delete(pods, "a", "pod-0"))
			must(w.T, w.srv.Load(pods, newPod("a", "new", nil, "node-x")))
			annotate(w.T, w.srv, pods, "a/pod-1", "changed")
			pod := &corev1.Pod{}
			w.eventually("the last change", func() bool {
				must(w.T, w.Get(w.ctx, client.ObjectKey{Namespace: "a", Name: "pod-1"}, pod))
				return pod.Annotations["note"] == "changed"
			})
			return append(out, w.keys(&corev1.PodList{}, client.InNamespace("a")))
		},
		want: []string{"[a/pod-0 a/pod-1 a/pod-2]", "[a/new a/pod-1 a/pod-2]"},
	},
}

var indexing = map[string]behaviour{
	"field index added before the start": {
		run: func(w *world) []string {
			must(w.T, w.IndexField(w.ctx, &corev1.Pod{}, "spec.nodeName", node))
			must(w.T, w.IndexField(w.ctx, &corev1.Pod{}, "app", app))
			again := w.IndexField(w.ctx, &corev1.Pod{}, "app", app)
			w.run()
			return append(indexed(w), fmt.Sprint(again != nil))
		},
		want: append(slices.Clone(indexedWant), "true"),
	},
	"field index added after the start": {
		run: func(w *world) []string {
			w.run()
			_, err := w.GetInformer(w.ctx, &corev1.Pod{})
			must(w.T, err)
			must(w.T, w.IndexField(w.ctx, &corev1.Pod{}, "spec.nodeName", node))
			must(w.T, w.IndexField(w.ctx, &corev1.Pod{}, "app", app))
			return indexed(w)
		},
		want: indexedWant,
	},
	"field index of cluster-scoped, unstructured and metadata": {
		run: func(w *world) []string {
			must(w.T, w.IndexField(w.ctx, &corev1.Node{}, "app", app))
			must(w.T, w.IndexField(w.ctx, unstructuredOf(podKind), "app", app))
			must(w.T, w.IndexField(w.ctx, metadataOf(podKind), "app", app))
			w.run()
			return []string{
				w.keys(&corev1.NodeList{}, byField("app", "web")),
				w.keys(unstructuredListOf(podKind), byField("app", "db"), client.InNamespace("a")),
				w.keys(metadataListOf(podKind), byField("app", "db"), client.InNamespace("c")),
			}
		},
		want: []string{"[/node-x /node-y]", "[a/pod-1]", "[c/pod-5]"},
	},
	"field index over namespaces": {
		opts: cache.Options{DefaultNamespaces: map[string]cache.Config{"a": {}, "b": {}}},
		run: func(w *world) []string {
			must(w.T, w.IndexField(w.ctx, &corev1.Pod{}, "app", app))
			w.run()
			return []string{w.keys(&corev1.PodList{}, byField("app", "web")),
				w.keys(&corev1.PodList{}, byField("app", "web"), client.InNamespace("b"))}
		},
		want: []string{"[a/pod-0 a/pod-2 b/pod-4]", "[b/pod-4]"},
	},
	"no such index": {
		run: func(w *world) []string {
			w.run()
			err := w.List(w.ctx, &corev1.PodList{}, byField("app", "web"))
			return []string{fmt.Sprint(err != nil), fmt.Sprint(strings.Contains(fmt.Sprint(err), "field:app"))}
		},
		want: []string{"true", "true"},
	},
}

// indexed looks pods up by two indexes, before and after one object was changed, one created and one deleted.
func indexed(w *world) []string {
	look := func() []string {
		return []string{
			w.keys(&corev1.PodList{}, byField("spec.nodeName", "node-x")),
			w.keys(&corev1.PodList{}, byField("spec.nodeName", "node-y"), client.InNamespace("c")),
			w.keys(&corev1.PodList{}, byField("spec.nodeName", "node-y"), client.InNamespace("a")),
			w.keys(&corev1.PodList{}, client.MatchingFields{"spec.nodeName": "node-x", "app": "web"}),
			w.keys(&corev1.PodList{}, byField("spec.nodeName", "none")),
		}
	}
	out := look()
	_, err := w.srv.Update(pods, newPod("a", "pod-0", nil, "node-y"))
	must(w.T, err)
	must(w.T, w.srv.Delete(pods, "a", "pod-1"))
	must(w.T, w.srv.Load(pods, newPod("e", "last", nil, "node-x")))
	w.eventually("the last pod", func() bool { return w.keys(&corev1.PodList{}, client.InNamespace("e")) != "[]" })
	return append(out, look()...)
}

var indexedWant = []string{
	"[a/pod-0 a/pod-1 a/pod-2 b/pod-3]", "[c/pod-5 c/pod-6]", "[]", "[a/pod-0 a/pod-2]", "[]",
	"[a/pod-2 b/pod-3 e/last]", "[c/pod-5 c/pod-6]", "[a/pod-0]", "[a/pod-2]", "[]",
}

func ptr[T any](v T) *T { return &v }

func selectApp(value string) labels.Selector { return labels.Set{"app": value}.AsSelector() }

func unstructuredListOf(gvk schema.GroupVersionKind) *unstructured.UnstructuredList {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(listKind(gvk))
	return list
}

func metadataListOf(gvk schema.GroupVersionKind) *metav1.PartialObjectMetadataList {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(listKind(gvk))
	return list
}

func listKind(gvk schema.GroupVersionKind) schema.GroupVersionKind {
	gvk.Kind += "List"
	return gvk
}
