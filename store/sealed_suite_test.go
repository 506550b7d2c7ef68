package store_test

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
	"pgregory.net/rapid"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/internal/storetest"
	"github.com/larder-dev/larder/store"
)

func TestIndexerOfSealedCollection(t *testing.T) {
	t.Parallel()
	for _, residency := range residencies {
		for when, o := range map[string]store.Options{"AtOnce": store.AtOnce(store.Options{}), "Late": {}} {
			for _, compression := range []store.Compression{store.NoCompression, store.Zstd} {
				t.Run(residency.String()+when+string(compression), func(t *testing.T) {
					storetest.RunIndexer(t, func(t *testing.T, indexers cache.Indexers) cache.Indexer {
						o.Encryption = storetest.Sealing(t, storetest.Key(t))
						return openPodsWith(t, storetest.Open(t, o), store.CollectionOptions{
							Indexers: indexers, Residency: residency, Compression: compression,
						}).Indexer()
					})
				})
			}
		}
	}
}

// TestQueriesOfSealedCollection queries the memtable, the file and a View of a sealed collection.
func TestQueriesOfSealedCollection(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		codec codec.Codec
		as    func(*testing.T, *corev1.Pod) runtime.Object
	}{"Protobuf": {storetest.PodCodec(), asTyped}, "Unstructured": {codec.Unstructured(), asUnstructured}} {
		for _, residency := range residencies {
			for _, compression := range []store.Compression{store.NoCompression, store.Zstd} {
				t.Run(name+residency.String()+string(compression), func(t *testing.T) {
					s := storetest.Open(t, store.Options{CommitInterval: time.Hour,
						Encryption: storetest.Sealing(t, storetest.Key(t))})
					o := store.CollectionOptions{Codec: c.codec, Residency: residency, Compression: compression}
					pods := queryCollection(t, s, o, c.as)
					t.Run("Pending", func(t *testing.T) { storetest.RunQueries(t, pods) })
					flush(t, s)
					store.WaitBuilds(pods)
					t.Run("Committed", func(t *testing.T) { storetest.RunQueries(t, pods) })
					v, err := s.ViewWith(t.Context(), storetest.Pods, c.codec)
					if err != nil {
						t.Fatal(err)
					}
					t.Run("View", func(t *testing.T) { storetest.RunQueries(t, v) })
				})
			}
		}
	}
}

// TestSealedModel runs storetest's model test on a sealed collection, with calls of Rekey at random.
func TestSealedModel(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		bounds         [2]int
		commitInterval time.Duration
		o              store.CollectionOptions
	}{
		"AtOnce": {bounds: [2]int{64 << 20, 256 << 20}, commitInterval: -1,
			o: store.CollectionOptions{Residency: store.None}},
		"Spilling": {bounds: [2]int{300, 300}, commitInterval: time.Microsecond,
			o: store.CollectionOptions{Residency: store.All}},
		"Zstd": {bounds: [2]int{500, 200}, commitInterval: time.Hour,
			o: store.CollectionOptions{Residency: store.None, Compression: store.Zstd}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testSealedModel(t, test.bounds, test.commitInterval, test.o)
		})
	}
}

func testSealedModel(t *testing.T, bounds [2]int, commitInterval time.Duration, o store.CollectionOptions) {
	s := storetest.Open(t, store.Every(
		store.Options{Logger: &quiet, Encryption: storetest.Sealing(t, storetest.Key(t))}, commitInterval))
	store.NoSync(s)
	ctx, rekeyed := context.Background(), 0
	o.Codec = storetest.PodCodec()
	script := func(t *rapid.T) {
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
				o.Indexers, o.IndexVersions = indexers, versions
				opened, err := s.Collection(ctx, storetest.Pods, o)
				if err != nil {
					t.Fatal(err)
				}
				store.SetLimits(opened, bounds[0], bounds[1])
				if o.Compression != store.NoCompression {
					store.SetSampling(opened, 1<<10, 200)
				}
				c = opened
				return c
			},
			Close: func(*rapid.T) { c.Close() },
			Wait:  func() { store.WaitBuilds(c) },
			Flush: func(t *rapid.T) {
				err := s.Flush(ctx)
				if err == nil && rapid.Bool().Draw(t, "rekey") {
					_, err = s.Rekey(ctx)
					store.NoSync(s)
					rekeyed++
				}
				if err != nil {
					t.Fatal(err)
				}
			},
			Check: func(t *rapid.T) {
				if r, err := store.CheckContent(ctx, s); err != nil || len(r.Problems) > 0 {
					t.Fatalf("check: %v, %q", err, r.Problems)
				}
				if plain, err := plainRecords(s); err != nil || plain > 0 {
					t.Fatalf("%d records are not sealed, %v", plain, err)
				}
			},
		})
	}
	for range 10 { // the random steps of one check may not include a Rekey
		if rapid.Check(t, script); rekeyed > 0 {
			return
		}
	}
	t.Error("the store was never sealed anew")
}
