package store_test

import (
	"context"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/store"
)

var pods = store.Identity{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "pods"}}

func pod(key, rv string, labels ...string) *corev1.Pod {
	ns, name, _ := cache.SplitMetaNamespaceKey(key)
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: ns, Name: name, UID: types.UID("uid-" + key), ResourceVersion: rv,
	}}
	for i := 0; i+1 < len(labels); i += 2 {
		metav1.SetMetaDataLabel(&p.ObjectMeta, labels[i], labels[i+1])
	}
	return p
}

func TestThinSlice(t *testing.T) {
	s, err := store.Open(filepath.Join(t.TempDir(), "larder.db"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx := context.Background()
	codec, err := store.CodecFor(&corev1.Pod{})
	if err != nil {
		t.Fatal(err)
	}
	c, err := s.Collection(ctx, pods, store.CollectionOptions{Codec: codec, Indexers: cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}})
	if err != nil {
		t.Fatal(err)
	}
	r, err := c.BeginReplace(ctx, store.ReplaceOptions{})
	if err != nil {
		t.Fatal(err)
	}
	res, err := r.Page(ctx, []runtime.Object{pod("a/1", "1"), pod("a/2", "2"), pod("b/1", "3")})
	if err != nil || len(res.Changes) != 3 {
		t.Fatal(res, err)
	}
	if _, err := r.Commit(ctx, store.Batch{ResourceVersion: "5"}); err != nil {
		t.Fatal(err)
	}
	res, err = c.Apply(ctx, store.Batch{ResourceVersion: "7", Ops: []store.Op{{Object: pod("a/1", "6")}, {Type: store.Delete, Object: pod("b/1", "7")}}})
	if err != nil || len(res.Changes) != 2 || res.Changes[0].Old == nil || res.Changes[1].Type != cache.Deleted {
		t.Fatal(res, err)
	}
	info, err := c.Info(ctx)
	t.Logf("%+v %v", info, err)
	keys, err := c.IndexKeys(ctx, cache.NamespaceIndex, "a")
	t.Log(keys, err)
	keys, err = c.IndexKeys(ctx, cache.NamespaceIndex, "b")
	t.Log(keys, err)
	vals, err := c.IndexValues(ctx, cache.NamespaceIndex)
	t.Log(vals, err)
	r, _ = c.BeginReplace(ctx, store.ReplaceOptions{})
	r.Page(ctx, []runtime.Object{pod("a/1", "6"), pod("c/2", "20"), pod("b/1", "30")})
	res, err = r.Commit(ctx, store.Batch{ResourceVersion: "55"})
	for _, c := range res.Changes {
		t.Log(c.Type, c.Key)
	}
	info, err = c.Info(ctx)
	t.Logf("%+v %v", info, err)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
}
