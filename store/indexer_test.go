package store_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/internal/storetest"
	"github.com/larder-dev/larder/store"
	"github.com/larder-dev/larder/store/memory"
)

func TestIndexerOfClientGo(t *testing.T) {
	storetest.RunIndexer(t, func(t *testing.T, indexers cache.Indexers) cache.Indexer {
		return cache.NewIndexer(cache.DeletionHandlingMetaNamespaceKeyFunc, indexers)
	})
}

func TestIndexerOfCollection(t *testing.T) {
	t.Parallel()
	for _, residency := range residencies {
		for when, interval := range map[string]time.Duration{"AtOnce": -1, "Late": 0} {
			t.Run(residency.String()+when, func(t *testing.T) {
				storetest.RunIndexer(t, func(t *testing.T, indexers cache.Indexers) cache.Indexer {
					s := storetest.Open(t, store.Options{CommitInterval: interval})
					return openPodsAs(t, s, indexers, residency).Indexer()
				})
			})
		}
	}
}

// TestIndexerOfCompressedCollection runs storetest's tests of a cache.Indexer with compressed records.
func TestIndexerOfCompressedCollection(t *testing.T) {
	for when, interval := range map[string]time.Duration{"AtOnce": -1, "Late": 0} {
		t.Run(when, func(t *testing.T) {
			storetest.RunIndexer(t, func(t *testing.T, indexers cache.Indexers) cache.Indexer {
				s := storetest.Open(t, store.Options{CommitInterval: interval})
				return openPodsWith(t, s, store.CollectionOptions{Indexers: indexers, Residency: store.None,
					Compression: store.Zstd}).Indexer()
			})
		})
	}
}

// residencies are the values of Residency (whether decoded objects stay in memory) that the test suites run with.
var residencies = []store.Residency{store.All, store.None}

func TestIndexerOfMemory(t *testing.T) {
	storetest.RunIndexer(t, func(t *testing.T, indexers cache.Indexers) cache.Indexer {
		m, err := memory.New(storetest.Pods, store.CollectionOptions{Indexers: indexers})
		if err != nil {
			t.Fatal(err)
		}
		return m.Indexer()
	})
}

func openPods(t *testing.T, s *store.Store, indexers cache.Indexers) *store.Collection {
	t.Helper()
	return openPodsAs(t, s, indexers, store.None)
}

func openPodsAs(t *testing.T, s *store.Store, indexers cache.Indexers, residency store.Residency) *store.Collection {
	t.Helper()
	return openPodsWith(t, s, store.CollectionOptions{Residency: residency, Indexers: indexers})
}

func openPodsWith(t *testing.T, s *store.Store, o store.CollectionOptions) *store.Collection {
	t.Helper()
	if o.Codec == nil {
		o.Codec = storetest.PodCodec()
	}
	c, err := s.Collection(context.Background(), storetest.Pods, o)
	if err != nil {
		t.Fatal(err)
	}
	if o.Compression != store.NoCompression {
		store.SetSampling(c, 1<<10, 200)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func TestIndexerKeepsTheFirstError(t *testing.T) {
	s := storetest.Open(t, store.Options{})
	i := openPods(t, s, nil).Indexer()
	select {
	case <-i.Failed():
		t.Fatal("failed before anything did")
	default:
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if l := i.List(); l == nil || len(l) != 0 {
		t.Errorf("List of a closed store: %v", l)
	}
	i.Bookmark("1")
	i.ListKeys()
	if err := i.Err(); !errors.Is(err, store.ErrClosed) || !strings.Contains(err.Error(), "List:") {
		t.Errorf("Err is %v, want the error of List", err)
	}
	select {
	case <-i.Failed():
	default:
		t.Error("Failed is not closed")
	}
	if _, _, err := i.GetByKey("a/x"); !errors.Is(err, store.ErrClosed) {
		t.Errorf("GetByKey of a closed store: %v", err)
	}
}

// TestIndexerKeyErrorsDoNotShowObjects checks that a key error does not contain the object, which may be confidential.
func TestIndexerKeyErrorsDoNotShowObjects(t *testing.T) {
	m, err := memory.New(storetest.Pods, store.CollectionOptions{})
	if err != nil {
		t.Fatal(err)
	}
	err = m.Indexer().Add(map[string]string{"password": "hunter2"})
	if err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("error is %v", err)
	}
}
