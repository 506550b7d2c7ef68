package store_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/storetest"
	"github.com/larder-dev/larder/store"
)

func TestCollectionSurvivesReopening(t *testing.T) {
	path := filepath.Join(t.TempDir(), "larder.db")
	s := storetest.OpenFile(t, path, store.Options{})
	resource := entry.ResourceInfo{Kind: "Pod", Singular: "pod", ShortNames: []string{"po"}, Namespaced: true}
	o := store.CollectionOptions{Residency: store.None, Codec: storetest.PodCodec(), Resource: resource,
		Indexers: byNamespaceAndColor}
	c, err := s.Collection(context.Background(), storetest.Pods, o)
	if err != nil {
		t.Fatal(err)
	}
	attrs := entry.Attributes{ClusterID: "c", Codec: "protobuf", Schema: "s", Transform: "t", OpenAPI: "o"}
	relist(t, c, store.ReplaceOptions{Attributes: attrs}, "10", upsert("a/1", "1", storetest.ColorLabel, "red"),
		upsert("b/1", "2"))
	want := infoOf(t, c)
	c.Close()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}

	s = storetest.OpenFile(t, path, store.Options{})
	o.Resource = entry.ResourceInfo{} // a process that does not set Resource keeps the stored ResourceInfo
	if c, err = s.Collection(context.Background(), storetest.Pods, o); err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if got := infoOf(t, c); fmt.Sprint(got) != fmt.Sprint(want) || got.Attributes != attrs || got.Resource.Kind != "Pod" {
		t.Errorf("info %+v, want %+v", got, want)
	}
	wantStrings(t, "what is stored", list(t, c), "a/1 uid=uid-a/1 rv=1 color=red", "b/1 uid=uid-b/1 rv=2")
}

func TestCollectionOpensOnce(t *testing.T) {
	ctx := context.Background()
	s := storetest.Open(t, store.Options{})
	c := openPods(t, s, nil)
	o := store.CollectionOptions{Residency: store.None, Codec: storetest.PodCodec()}
	if _, err := s.Collection(ctx, storetest.Pods, o); !errors.Is(err, store.ErrCollectionOpen) {
		t.Errorf("opened twice: %v", err)
	}
	if err := s.Drop(ctx, storetest.Pods); !errors.Is(err, store.ErrCollectionOpen) {
		t.Errorf("dropped while open: %v", err)
	}
	c.Close()
	c.Close() // a second Close must not release the name, which another Collection may have claimed
	again, err := s.Collection(ctx, storetest.Pods, o)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	if _, err := s.Collection(ctx, storetest.Pods, o); !errors.Is(err, store.ErrCollectionOpen) {
		t.Errorf("opened twice after a second Close: %v", err)
	}
	again.Close()
	if err := s.Drop(ctx, storetest.Pods); err != nil {
		t.Fatal(err)
	}
	if err := s.Drop(ctx, storetest.Pods); !errors.Is(err, store.ErrNoCollection) {
		t.Errorf("dropped twice: %v", err)
	}
}

func TestCollectionNeedsACodecAndAnIdentity(t *testing.T) {
	s := storetest.Open(t, store.Options{})
	if _, err := s.Collection(context.Background(), storetest.Pods, store.CollectionOptions{}); err == nil ||
		!strings.Contains(err.Error(), "Codec") {
		t.Errorf("without a codec: %v", err)
	}
	if _, err := s.Collection(context.Background(), entry.Identity{},
		store.CollectionOptions{Residency: store.None, Codec: storetest.PodCodec()}); err == nil {
		t.Error("without an identity: no error")
	}
	// A failed call of Store.Collection must release the collection's name.
	if _, err := s.Collection(context.Background(), storetest.Pods, store.CollectionOptions{
		Codec: storetest.PodCodec(), Indexers: cache.Indexers{"bad": nil},
	}); err == nil {
		t.Error("with a bad index: no error")
	}
	openPods(t, s, nil)
}

func TestCollectionsAreSeparate(t *testing.T) {
	s := storetest.Open(t, store.Options{})
	for _, id := range []entry.Identity{
		storetest.Pods,
		{GroupVersionResource: storetest.Pods.GroupVersionResource, Namespace: "a"},
		{GroupVersionResource: storetest.Pods.GroupVersionResource, LabelSelector: "app=x"},
		{GroupVersionResource: storetest.Pods.GroupVersionResource, LabelSelector: "app=y"},
	} {
		c, err := s.Collection(context.Background(), id,
			store.CollectionOptions{Residency: store.None, Codec: storetest.PodCodec()})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if info := infoOf(t, c); info.ResourceVersion != "" || info.Objects != 0 {
			t.Errorf("%s begins with %+v", id, info)
		}
		relist(t, c, store.ReplaceOptions{}, "10", upsert("a/1", "1"))
	}
	infos, err := s.Collections(context.Background())
	if err != nil || len(infos) != 4 {
		t.Fatalf("%d collections, %v", len(infos), err)
	}
	for _, info := range infos {
		if info.ResourceVersion != "10" || info.Objects != 1 || info.Identity.Resource != "pods" {
			t.Errorf("info %+v", info)
		}
	}
}

func TestIterateByPages(t *testing.T) {
	s := storetest.Open(t, store.Options{})
	store.NoSync(s)
	c := openPods(t, s, nil)
	fill(t, c, 1201)
	n, last := 0, ""
	err := c.Iterate(context.Background(), "", func(key string, obj runtime.Object) error {
		if n++; key <= last {
			t.Fatalf("%q after %q", key, last)
		}
		last = key
		// The callback of Iterate may write, since no transaction is open while it runs.
		if n == 10 {
			apply(t, c, "5000", upsert("zz/new", "5000"), remove("ns0/pod0300", "5000"))
		}
		return nil
	})
	if err != nil || n < 1201 || last != "zz/new" {
		t.Errorf("%d objects up to %q, %v", n, last, err)
	}
	stop := errors.New("enough")
	n = 0
	if err := c.Iterate(context.Background(), "ns1",
		func(string, runtime.Object) error { n++; return stop }); !errors.Is(err, stop) || n != 1 {
		t.Errorf("%d calls, %v", n, err)
	}
}

func TestReadOnlyStore(t *testing.T) {
	ctx := context.Background()
	path := filepath.Join(t.TempDir(), "larder.db")
	s := storetest.OpenFile(t, path, store.Options{})
	versions := map[string]string{"color": "1"}
	c := session(t, s, byNamespaceAndColor, versions)
	fill(t, c, 9)
	c.Close()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}

	s = storetest.OpenFile(t, path, store.Options{ReadOnly: true})
	c = session(t, s, cache.Indexers{"color": storetest.ByColor, "name": storetest.ByName}, versions)
	if len(list(t, c)) != 9 {
		t.Error("objects are missing")
	}
	if keys, err := c.IndexKeys(ctx, "color", "green"); err != nil || len(keys) != 4 {
		t.Errorf("an index that the file has: %q, %v", keys, err)
	}
	if keys, err := c.IndexKeys(ctx, "name", "pod0001"); !errors.Is(err, store.ErrReadOnly) {
		t.Errorf("an index that the file does not have: %q, %v", keys, err)
	}
	_, err := c.Apply(ctx, entry.Batch{ResourceVersion: "100"})
	_, begin := c.BeginReplace(ctx, store.ReplaceOptions{})
	for what, err := range map[string]error{"Apply": err, "BeginReplace": begin,
		"SetMustRelist": c.SetMustRelist(ctx, "why")} {
		if !errors.Is(err, store.ErrReadOnly) {
			t.Errorf("%s: %v", what, err)
		}
	}
	other := entry.Identity{GroupVersionResource: storetest.Pods.GroupVersionResource, Namespace: "a"}
	if _, err := s.Collection(ctx, other, store.CollectionOptions{Residency: store.None,
		Codec: storetest.PodCodec()}); !errors.Is(err, store.ErrNoCollection) {
		t.Errorf("a collection that is not there: %v", err)
	}
}

// TestReadOnlyEmptyCollection checks that a missing index of an empty collection is not reported as damage.
func TestReadOnlyEmptyCollection(t *testing.T) {
	ctx := context.Background()
	path := filepath.Join(t.TempDir(), "larder.db")
	s := storetest.OpenFile(t, path, store.Options{})
	c := openPods(t, s, nil)
	relist(t, c, store.ReplaceOptions{}, "7")
	c.Close()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = storetest.OpenFile(t, path, store.Options{ReadOnly: true})
	c = openPods(t, s, cache.Indexers{"name": storetest.ByName})
	if keys, err := c.IndexKeys(ctx, "name", "a"); !errors.Is(err, store.ErrReadOnly) {
		t.Errorf("%q, %v", keys, err)
	}
	if s.Err() != nil {
		t.Errorf("Err: %v", s.Err())
	}
}

func TestView(t *testing.T) {
	ctx := context.Background()
	s := storetest.Open(t, store.Options{})
	c := openPods(t, s, byNamespaceAndColor)
	fill(t, c, 9)

	view, err := codec.View(entry.Typed, storetest.PodCodec())
	if err != nil {
		t.Fatal(err)
	}
	v, err := s.ViewWith(ctx, storetest.Pods, view)
	if err != nil {
		t.Fatal(err)
	}
	objs, err := v.ByIndex(ctx, cache.NamespaceIndex, "ns1")
	if err != nil || len(objs) != 3 {
		t.Fatalf("%d objects, %v", len(objs), err)
	}
	if u, ok := objs[0].(*unstructured.Unstructured); !ok || u.GetName() != "pod0001" {
		t.Errorf("got %T", objs[0])
	}
	keys, err := v.IndexKeys(ctx, "color", "red")
	values, err2 := v.IndexValues(ctx, "color")
	if err != nil || err2 != nil || len(keys) != 5 || len(values) != 2 {
		t.Errorf("keys %q, %v, values %q, %v", keys, err, values, err2)
	}
	if _, err := v.ByIndex(ctx, "none", "x"); !errors.Is(err, store.ErrNoIndex) {
		t.Errorf("ByIndex of no index: %v", err)
	}
	apply(t, c, "100", upsert("ns1/new", "100"))
	if err := s.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	if info, err := v.Info(ctx); err != nil || info.Objects != 10 {
		t.Errorf("a view does not follow the writer: %+v, %v", info, err)
	}
	if _, err := s.View(ctx, entry.Identity{GroupVersionResource: storetest.Pods.GroupVersionResource,
		Namespace: "a"}); !errors.Is(err, store.ErrNoCollection) {
		t.Errorf("a collection that is not there: %v", err)
	}
}

// TestCollectionWaitsForClose checks that Store.Collection waits for an open collection if its owner has announced that
// it will close it, and fails at once otherwise.
func TestCollectionWaitsForClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := storetest.Open(t, store.Options{})
		var closing atomic.Bool
		o := store.CollectionOptions{Residency: store.None, Codec: storetest.PodCodec(), Closing: closing.Load}
		first, err := s.Collection(t.Context(), storetest.Pods, o)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		begun := time.Now()
		if _, err := s.Collection(ctx, storetest.Pods, o); !errors.Is(err, store.ErrCollectionOpen) || time.Since(begun) > 0 {
			t.Errorf("of one that stays open: %v after %v", err, time.Since(begun))
		}
		closing.Store(true)
		_, err = s.Collection(ctx, storetest.Pods, o)
		if !errors.Is(err, store.ErrCollectionOpen) || !errors.Is(err, context.DeadlineExceeded) ||
			time.Since(begun) != time.Hour {
			t.Errorf("of one that is not closed in time: %v after %v", err, time.Since(begun))
		}
		type result struct {
			c   *store.Collection
			err error
		}
		results := make(chan result)
		for range 2 {
			go func() {
				c, err := s.Collection(t.Context(), storetest.Pods, o)
				results <- result{c, err}
			}()
		}
		for range 2 {
			synctest.Wait()
			if len(results) > 0 {
				t.Error("opened before it was closed")
			}
			first.Close()
			r := <-results
			if r.err != nil {
				t.Fatal(r.err)
			}
			first = r.c
		}
		first.Close()
	})
}
