package store_test

import (
	"context"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/tools/cache"
	"pgregory.net/rapid"

	"github.com/larder-dev/larder/internal/storetest"
	"github.com/larder-dev/larder/store"
)

// quiet does without the reports of index functions that fail on purpose.
var quiet = logr.Discard()

func TestMemoryModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		storetest.RunModel(t, storetest.Harness{
			Open: func(t *rapid.T, indexers cache.Indexers, versions map[string]string) store.Interface {
				m, err := store.NewMemory(storetest.Pods, store.CollectionOptions{Indexers: indexers, IndexVersions: versions})
				if err != nil {
					t.Fatal(err)
				}
				return m
			},
		})
	})
}

func TestCollectionModel(t *testing.T) {
	for name, test := range map[string]struct {
		bounds         [2]int
		commitInterval time.Duration
		residency      store.Residency
	}{
		"CommittedAtOnce": {[2]int{64 << 20, 256 << 20}, -1, store.None},
		"CommittedLate":   {[2]int{64 << 20, 256 << 20}, time.Hour, store.None},
		"Spilling":        {[2]int{300, 256 << 20}, time.Microsecond, store.All},
		"Chunked":         {[2]int{64 << 20, 300}, time.Hour, store.Bounded(3000)},
		"Both":            {[2]int{500, 200}, -1, store.All},
		"BothBounded":     {[2]int{500, 200}, -1, store.Bounded(3000)},
	} {
		t.Run(name, func(t *testing.T) { testCollectionModel(t, test.bounds, test.commitInterval, test.residency) })
	}
}

func testCollectionModel(t *testing.T, bounds [2]int, commitInterval time.Duration, residency store.Residency) {
	s := storetest.Open(t, store.Options{Logger: &quiet, CommitInterval: commitInterval})
	store.NoSync(s)
	ctx, codec := context.Background(), storetest.PodCodec()
	rapid.Check(t, func(t *rapid.T) {
		var c *store.Collection
		defer func() {
			if c != nil {
				c.Close()
			}
			if err := s.Drop(ctx, storetest.Pods); err != nil {
				t.Fatal(err)
			}
		}()
		storetest.RunModel(t, storetest.Harness{
			Open: func(t *rapid.T, indexers cache.Indexers, versions map[string]string) store.Interface {
				opened, err := s.Collection(ctx, storetest.Pods, store.CollectionOptions{
					Codec: codec, Indexers: indexers, IndexVersions: versions, Residency: residency,
				})
				if err != nil {
					t.Fatal(err)
				}
				store.SetLimits(opened, bounds[0], bounds[1])
				c = opened
				return c
			},
			Close:  func(t *rapid.T) { c.Close() },
			Settle: func() { store.WaitBuilds(c) },
			Flush: func(t *rapid.T) {
				if err := s.Flush(ctx); err != nil {
					t.Fatal(err)
				}
			},
			Check: func(t *rapid.T) {
				if r, err := store.CheckContent(ctx, s); err != nil || len(r.Problems) > 0 {
					t.Fatalf("check: %v, %q", err, r.Problems)
				}
			},
		})
	})
}
