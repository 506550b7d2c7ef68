package informer_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/informer"
)

// TestHandlerAfterTheEnd checks client-go's error texts, which programs compare. Issue 16, A19.
func TestHandlerAfterTheEnd(t *testing.T) {
	none := &cache.ListWatch{ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
		return nil, errors.New("from the test")
	}}
	inf, err := informer.New(none, &corev1.Pod{}, informer.Options{
		InMemory: true, Identity: entry.Identity{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("pods")},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := inf.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = inf.AddEventHandler(cache.ResourceEventHandlerFuncs{})
	if err == nil || !strings.HasSuffix(err.Error(), "was not added to shared informer because it has stopped already") {
		t.Errorf("a handler after the end: %v", err)
	}
	err = inf.AddIndexers(cache.Indexers{"x": cache.MetaNamespaceIndexFunc})
	if err == nil || err.Error() != "indexer was not added because it has stopped already" {
		t.Errorf("an indexer after the end: %v", err)
	}
}
