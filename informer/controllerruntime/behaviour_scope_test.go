package controllerruntime

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var scoping = map[string]behaviour{
	"DefaultNamespaces": {
		opts: cache.Options{DefaultNamespaces: map[string]cache.Config{"a": {}, "b": {LabelSelector: selectApp("db")}}},
		run: func(w *world) []string {
			w.run()
			outside := w.Get(w.ctx, client.ObjectKey{Namespace: "c", Name: "pod-5"}, &corev1.Pod{})
			unselected := w.Get(w.ctx, client.ObjectKey{Namespace: "b", Name: "pod-4"}, &corev1.Pod{})
			return []string{
				w.keys(&corev1.PodList{}),
				w.keys(&corev1.PodList{}, client.InNamespace("b")),
				w.keys(&corev1.PodList{}, client.InNamespace("c")),
				fmt.Sprint(outside),
				fmt.Sprint(unselected),
				w.keys(&corev1.NodeList{}),
				w.keys(unstructuredListOf(podKind)),
				w.keys(metadataListOf(podKind)),
			}
		},
		want: []string{
			"[a/pod-0 a/pod-1 a/pod-2 b/pod-3]",
			"[b/pod-3]",
			"error: unable to list: c because of unknown namespace for the cache",
			"unable to get: c/pod-5 because of unknown namespace for the cache",
			`Pod "pod-4" not found`,
			"[/node-x /node-y]",
			"[a/pod-0 a/pod-1 a/pod-2 b/pod-3]",
			"[a/pod-0 a/pod-1 a/pod-2 b/pod-3]",
		},
	},
	"one namespace apart from all others": {
		opts: cache.Options{DefaultNamespaces: map[string]cache.Config{
			"a": {LabelSelector: selectApp("db")}, cache.AllNamespaces: {LabelSelector: selectApp("web")},
		}},
		run: func(w *world) []string {
			w.run()
			out := []string{w.keys(&corev1.PodList{}), w.keys(&corev1.PodList{}, client.InNamespace("a")),
				w.keys(&corev1.PodList{}, client.InNamespace("b"))}
			must(w.T, w.srv.Load(pods, newPod("a", "web", map[string]string{"app": "web"}, "node-x")))
			must(w.T, w.srv.Load(pods, newPod("d", "web", map[string]string{"app": "web"}, "node-x")))
			w.eventually("d/web", func() bool { return w.keys(&corev1.PodList{}, client.InNamespace("d")) != "[]" })
			return append(out, w.keys(&corev1.PodList{}))
		},
		want: []string{"[a/pod-1 b/pod-4 c/pod-6]", "[a/pod-1]", "[b/pod-4]", "[a/pod-1 b/pod-4 c/pod-6 d/web]"},
	},
	"ByObject": {
		opts: cache.Options{
			DefaultLabelSelector: selectApp("web"),
			ByObject: map[client.Object]cache.ByObject{
				&corev1.Pod{}: {Namespaces: map[string]cache.Config{"a": {}, "b": {LabelSelector: selectApp("db")},
					"c": {FieldSelector: fields.OneTermEqualSelector("metadata.name", "pod-6")}}},
				&corev1.Node{}:       {Field: fields.OneTermEqualSelector("metadata.name", "node-y")},
				&appsv1.Deployment{}: {Namespaces: map[string]cache.Config{}, Label: selectApp("none")},
			},
		},
		run: func(w *world) []string {
			w.run()
			return []string{w.keys(&corev1.PodList{}), w.keys(&corev1.NodeList{}), w.keys(&appsv1.DeploymentList{}),
				w.keys(&corev1.SecretList{})}
		},
		want: []string{"[a/pod-0 a/pod-2 b/pod-3 c/pod-6]", "[/node-y]", "[]", "[]"},
	},
	"a label that is lost": {
		opts: cache.Options{DefaultLabelSelector: selectApp("web")},
		run: func(w *world) []string {
			w.run()
			out := []string{w.keys(&corev1.PodList{}, client.InNamespace("a"))}
			_, err := w.srv.Update(pods, newPod("a", "pod-0", map[string]string{"app": "db"}, "node-x"))
			must(w.T, err)
			_, err = w.srv.Update(pods, newPod("a", "pod-1", map[string]string{"app": "web"}, "node-x"))
			must(w.T, err)
			now := ""
			w.eventually("both", func() bool {
				now = w.keys(&corev1.PodList{}, client.InNamespace("a"))
				return now != out[0] && len(now) == len(out[0])
			})
			return append(out, now)
		},
		want: []string{"[a/pod-0 a/pod-2]", "[a/pod-1 a/pod-2]"},
	},
}

func stamp(s string) func(any) (any, error) {
	return func(in any) (any, error) {
		acc, err := meta.Accessor(in)
		if err != nil {
			return nil, err
		}
		annotations := acc.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations["stamp"] = s
		acc.SetAnnotations(annotations)
		return in, nil
	}
}

// bodies are uses of a cache that compare whole objects, TypeMeta included.
var bodies = map[string]behaviour{
	"whole objects": {run: wholeObjects},
	"whole objects, JSON and deletes": {run: func(w *world) []string {
		w.run()
		out := w.dump(unstructuredListOf(widgetKind))
		annotate(w.T, w.srv, widgets, "a/w-1", "changed")
		must(w.T, w.srv.Delete(widgets, "a", "w-2"))
		w.eventually("the delete", func() bool { return w.keys(unstructuredListOf(widgetKind)) == "[a/w-1]" })
		return append(append(out, w.dump(unstructuredListOf(widgetKind))...), w.dump(metadataListOf(widgetKind))...)
	}},
	"UnsafeDisableDeepCopy": {opts: cache.Options{DefaultUnsafeDisableDeepCopy: ptr(true)}, run: wholeObjects},
	"UnsafeDisableDeepCopy of one call": {run: func(w *world) []string {
		w.run()
		pod := &corev1.Pod{}
		must(w.T, w.Get(w.ctx, client.ObjectKey{Namespace: "a", Name: "pod-1"}, pod, client.UnsafeDisableDeepCopy))
		return append(w.dump(&corev1.PodList{}, client.UnsafeDisableDeepCopy), whole(w.T, pod))
	}},
	"DefaultTransform": {opts: cache.Options{DefaultTransform: cache.TransformStripManagedFields()}, run: wholeObjects},
	"transforms by object and namespace": {
		opts: cache.Options{
			DefaultTransform: stamp("default"),
			ByObject: map[client.Object]cache.ByObject{
				&corev1.Node{}: {Transform: stamp("node")},
				&corev1.Pod{}: {Namespaces: map[string]cache.Config{"a": {Transform: stamp("a")}, "b": {}},
					Transform: stamp("pod")},
			},
		},
		run: wholeObjects,
	},
	"three forms of one kind": {run: func(w *world) []string {
		w.run()
		out := append(w.dump(&corev1.PodList{}), w.dump(unstructuredListOf(podKind))...)
		out = append(out, w.dump(metadataListOf(podKind))...)
		out = append(out, w.dump(unstructuredListOf(secretKind))...)
		return append(out, w.dump(metadataListOf(secretKind))...)
	}},
}

// wholeObjects returns a kind's listed objects, and then the objects after an event of the watch.
func wholeObjects(w *world) []string {
	w.run()
	dump := func() (out []string) {
		for _, list := range []client.ObjectList{
			&corev1.PodList{}, &corev1.NodeList{}, &appsv1.DeploymentList{}, &corev1.SecretList{},
			unstructuredListOf(podKind), metadataListOf(podKind), unstructuredListOf(widgetKind),
		} {
			out = append(out, w.dump(list)...)
		}
		return out
	}
	out := dump()
	annotate(w.T, w.srv, pods, "a/pod-1", "changed")
	annotate(w.T, w.srv, nodes, "/node-x", "changed")
	for _, obj := range []client.Object{&corev1.Pod{}, unstructuredOf(podKind), metadataOf(podKind)} {
		w.eventually("the change", func() bool {
			must(w.T, w.Get(w.ctx, client.ObjectKey{Namespace: "a", Name: "pod-1"}, obj))
			return noteOf(obj) == "changed"
		})
		out = append(out, whole(w.T, obj))
	}
	w.eventually("the node's change", func() bool {
		node := &corev1.Node{}
		must(w.T, w.Get(w.ctx, client.ObjectKey{Name: "node-x"}, node))
		return noteOf(node) == "changed"
	})
	return append(out, dump()...)
}
