package store_test

import (
	"context"
	"testing"
	"time"

	"k8s.io/client-go/tools/cache"
	"pgregory.net/rapid"

	"github.com/larder-dev/larder/internal/storetest"
	"github.com/larder-dev/larder/store"
	"github.com/larder-dev/larder/store/memory"
)

func TestMemoryModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		storetest.RunModel(t, storetest.Harness{
			Open: func(t *rapid.T, indexers cache.Indexers, versions map[string]string) store.Interface {
				m, err := memory.New(storetest.Pods, store.CollectionOptions{Indexers: indexers, IndexVersions: versions})
				if err != nil {
					t.Fatal(err)
				}
				return m
			},
		})
	})
}

func TestCollectionModel(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		bounds         [2]int
		commitInterval time.Duration
		residency      store.Residency
		compression    store.Compression
		undecoded      bool
	}{
		"CommittedAtOnce": {bounds: [2]int{64 << 20, 256 << 20}, commitInterval: -1, residency: store.None},
		"CommittedLate":   {bounds: [2]int{64 << 20, 256 << 20}, commitInterval: time.Hour, residency: store.None},
		"Spilling":        {bounds: [2]int{300, 256 << 20}, commitInterval: time.Microsecond, residency: store.All},
		"Chunked":         {bounds: [2]int{64 << 20, 300}, commitInterval: time.Hour, residency: store.None},
		"Both":            {bounds: [2]int{500, 200}, commitInterval: -1, residency: store.All},
		"Zstd": {bounds: [2]int{500, 200}, commitInterval: time.Hour, residency: store.None,
			compression: store.Zstd},
		"ZstdAtOnce": {bounds: [2]int{64 << 20, 256 << 20}, commitInterval: -1, residency: store.All,
			compression: store.Zstd},
		"Undecoded": {bounds: [2]int{500, 200}, commitInterval: time.Hour, residency: store.None, undecoded: true},
		"UndecodedAll": {bounds: [2]int{500, 200}, commitInterval: time.Microsecond, residency: store.All,
			undecoded: true},
		"UndecodedChunked": {bounds: [2]int{64 << 20, 300}, commitInterval: time.Microsecond,
			residency: store.None, undecoded: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			as := func(c store.Interface) store.Interface { return c }
			if test.undecoded {
				as = storetest.Undecoded
			}
			testCollectionModel(t, test.bounds, test.commitInterval, test.residency, test.compression, as)
		})
	}
}

func testCollectionModel(
	t *testing.T, bounds [2]int, commitInterval time.Duration, residency store.Residency, compression store.Compression,
	as func(store.Interface) store.Interface,
) {
	s := storetest.Open(t, store.Every(store.Options{Logger: &quiet}, commitInterval))
	store.NoSync(s)
	ctx, codec := context.Background(), storetest.PodCodec()
	packed := 0
	defer func() {
		if (packed > 0) != (compression != store.NoCompression) {
			t.Errorf("%d checks found compressed records", packed)
		}
	}()
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
					Codec: codec, Indexers: indexers, IndexVersions: versions, Residency: residency, Compression: compression,
				})
				if err != nil {
					t.Fatal(err)
				}
				store.SetLimits(opened, bounds[0], bounds[1])
				if compression != store.NoCompression {
					store.SetSampling(opened, 1<<10, 200)
				}
				c = opened
				return as(c)
			},
			Close: func(t *rapid.T) { c.Close() },
			Wait:  func() { store.WaitBuilds(c) },
			Flush: func(t *rapid.T) {
				if err := s.Flush(ctx); err != nil {
					t.Fatal(err)
				}
			},
			Check: func(t *rapid.T) {
				if r, err := store.CheckContent(ctx, s); err != nil || len(r.Problems) > 0 {
					t.Fatalf("check: %v, %q", err, r.Problems)
				}
				if _, by, err := compressedBy(c); err != nil {
					t.Fatal(err)
				} else if len(by) > 0 {
					packed++
				}
			},
		})
	})
}
