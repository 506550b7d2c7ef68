package store_test

import (
	"bytes"
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/storetest"
	"github.com/larder-dev/larder/store"
)

// undecoded returns pods as objects that are not decoded (entry.Undecoded).
func undecoded(s *storetest.Sender, rv string, keys ...string) (objs []runtime.Object) {
	for _, key := range keys {
		objs = append(objs, s.Send(storetest.Pod(key, "u", rv)))
	}
	return objs
}

// TestUndecodedIsNotDecoded checks that storing and listing undecoded objects (entry.Undecoded), also with an index by
// namespace, decode none of them. With Residency All, or another index function, each object is decoded once.
func TestUndecodedIsNotDecoded(t *testing.T) {
	byNamespace := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
	for name, tt := range map[string]struct {
		residency store.Residency
		indexers  cache.Indexers
		want      int64
	}{
		"None":     {store.None, byNamespace, 0},
		"All":      {store.All, byNamespace, 4},
		"an index": {store.None, byNamespaceAndColor, 4},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := context.Background()
			s := storetest.Open(t, store.Options{})
			sender := storetest.NewSender(storetest.PodCodec())
			c, err := s.Collection(ctx, storetest.Pods, store.CollectionOptions{
				Codec: storetest.PodCodec(), Residency: tt.residency, Indexers: tt.indexers,
			})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			for range 2 {
				r, err := c.BeginReplace(ctx, store.ReplaceOptions{})
				if err != nil {
					t.Fatal(err)
				}
				if _, err := r.Page(ctx, undecoded(sender, "1", "a/1", "a/2", "b/1")); err != nil {
					t.Fatal(err)
				}
				if _, err := r.Commit(ctx, entry.Batch{ResourceVersion: "2"}); err != nil {
					t.Fatal(err)
				}
				if err := s.Flush(ctx); err != nil {
					t.Fatal(err)
				}
			}
			ops := []entry.Op{{Type: entry.Upsert, Object: undecoded(sender, "3", "a/1")[0]}}
			if _, err := c.Apply(ctx, entry.Batch{ResourceVersion: "3", Ops: ops}); err != nil {
				t.Fatal(err)
			}
			if keys, err := c.IndexKeys(ctx, cache.NamespaceIndex, "a"); err != nil || len(keys) != 2 {
				t.Errorf("%q, %v", keys, err)
			}
			if err := s.Flush(ctx); err != nil {
				t.Fatal(err)
			}
			if n := sender.Decoded.Load(); n != tt.want {
				t.Errorf("%d were decoded, want %d", n, tt.want)
			}
			e, found, err := s.Record(ctx, storetest.Pods, "a/1")
			want, _ := storetest.PodCodec().Append(nil, storetest.Pod("a/1", "u", "3"))
			if err != nil || !found || !bytes.Equal(e.Payload, want) {
				t.Errorf("stored %+v, %v", e, err)
			}
		})
	}
}

// TestUndecodable checks that an object that cannot be decoded is left out if its decoded form is needed. Otherwise the
// store keeps it as received, and reads of other objects succeed.
func TestUndecodable(t *testing.T) {
	for name, tt := range map[string]struct {
		residency store.Residency
		decodes   bool
		leftOut   bool
	}{
		"All": {store.All, false, true}, "None": {store.None, false, false},
		"wanted": {store.None, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := context.Background()
			s := storetest.Open(t, store.Options{})
			sender := storetest.NewSender(storetest.PodCodec())
			c, err := s.Collection(ctx, storetest.Pods, store.CollectionOptions{
				Codec: storetest.PodCodec(), Residency: tt.residency, Decodes: func() bool { return tt.decodes },
			})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			bad := sender.Raw(storetest.Pod("a/2", "u", "2"), []byte{0, 0, 0xff})
			ops := []entry.Op{
				{Type: entry.Upsert, Object: sender.Send(storetest.Pod("a/1", "u", "1"))},
				{Type: entry.Upsert, Object: bad},
			}
			res, err := c.Apply(ctx, entry.Batch{ResourceVersion: "2", Ops: ops})
			if err != nil {
				t.Fatal(err)
			}
			info := infoOf(t, c)
			if got := len(info.LeftOut) == 1 && info.LeftOut[0].Reason == entry.LeftOutCodec; got != tt.leftOut ||
				got != (len(res.Skipped) == 1) || len(res.Changes)+len(res.Skipped) != 2 {
				t.Errorf("left out %+v, skipped %+v", info.LeftOut, res.Skipped)
			}
			for range 2 {
				if obj, err := c.Get(ctx, "a/1"); err != nil || obj.(*corev1.Pod).Name != "1" {
					t.Errorf("a/1: %v, %v", obj, err)
				}
				obj, err := c.Get(ctx, "a/2")
				if tt.leftOut && (obj != nil || err != nil) {
					t.Errorf("a/2, left out: %v, %v", obj, err)
				}
				if !tt.leftOut && !errors.Is(err, entry.ErrIncompatible) && !errors.Is(err, entry.ErrDamaged) {
					t.Errorf("a/2: %v, %v", obj, err)
				}
				if err := s.Flush(ctx); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}
