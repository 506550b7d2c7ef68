package controllerruntime

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/larder-dev/larder/informer"
	"github.com/larder-dev/larder/store"
	"github.com/larder-dev/larder/store/query"
)

// TestReaderOfTheCachesInformer checks that Informer.Reader returns the same as the cache's List.
func TestReaderOfTheCachesInformer(t *testing.T) {
	st, closeStore := openStore(t, storePath(t))
	defer closeStore()
	w := newWorld(t, startServer(t), NewCache(informer.Options{Store: st, Residency: store.None}))
	w.create(cache.Options{})
	inf, err := w.GetInformer(w.ctx, &corev1.Pod{}, cache.BlockUntilSynced(false))
	must(t, err)
	w.run()
	defer w.stop()
	web := client.MatchingLabels{"app": "web"}
	for _, namespace := range []string{"", "a", "none"} {
		want := w.keys(&corev1.PodList{}, client.InNamespace(namespace), web)
		objs, err := inf.(*informer.Informer).Reader().Select(w.ctx,
			query.Query{Namespace: namespace, Labels: labels.SelectorFromSet(labels.Set(web))})
		must(t, err)
		got := []string{}
		for _, obj := range objs {
			got = append(got, keyOf(obj))
		}
		if fmt.Sprint(got) != want {
			t.Errorf("in %q: %s, want %s", namespace, got, want)
		}
	}
}
