package store_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store"
)

func openAs(t *testing.T, s *store.Store, r store.Residency) *store.Collection {
	t.Helper()
	c, err := s.Collection(t.Context(), pods(), store.CollectionOptions{
		Residency: r, Codec: mustCodec(t, &corev1.Pod{}),
		Indexers: cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc},
	})
	if err == nil {
		err = c.WaitResident(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func podAt(i int, rv string) *corev1.Pod {
	p := somePod(i)
	p.ResourceVersion = rv
	return p
}

func applyPod(t *testing.T, c *store.Collection, p *corev1.Pod) error {
	t.Helper()
	_, err := c.Apply(t.Context(), entry.Batch{Ops: []entry.Op{{Object: p}}, ResourceVersion: p.ResourceVersion})
	return err
}

func numberOf(rv string) int {
	n, _ := strconv.Atoi(rv)
	return n
}

func rvOf(obj runtime.Object) string {
	if obj == nil {
		return "none"
	}
	return obj.(*corev1.Pod).ResourceVersion
}

func TestInfoIsNotAheadOfObjects(t *testing.T) {
	for _, interval := range []time.Duration{0, -1} {
		s := mustOpen(t, t.TempDir()+"/store", store.Options{CommitInterval: interval})
		store.NoSync(s)
		c := openAs(t, s, store.All)
		mustList(t, c, 10)
		if err := applyPod(t, c, podAt(0, "2000")); err != nil {
			t.Fatal(err)
		}
		var stop atomic.Bool
		var reader sync.WaitGroup
		reader.Go(func() {
			for !stop.Load() {
				info, err := c.Info(t.Context())
				obj, err2 := c.Get(t.Context(), "namespace-0/pod-0000")
				if err != nil || err2 != nil || numberOf(info.ResourceVersion) > numberOf(rvOf(obj)) {
					t.Errorf("Info at %s, then an object at %s; %v, %v", info.ResourceVersion, rvOf(obj), err, err2)
					return
				}
			}
		})
		for i := range soaked(500, 5000) {
			if err := applyPod(t, c, podAt(0, fmt.Sprint(2001+i))); err != nil {
				t.Fatal(err)
			}
		}
		stop.Store(true)
		reader.Wait()
		mustClose(t, s)
	}
}

// TestAddIndexersAfterOneThatFailed checks that index entries of the failed call do not stay in memory.
func TestAddIndexersAfterOneThatFailed(t *testing.T) {
	s := mustOpen(t, t.TempDir()+"/store", store.Options{})
	c := openAs(t, s, store.All)
	mustList(t, c, 10)
	by := func(v string) cache.IndexFunc { return func(any) ([]string, error) { return []string{v}, nil } }
	failCommits(s, func() error { return syscall.ENOSPC })
	if err := c.AddIndexers(context.Background(), cache.Indexers{"x": by("one")}, nil); !errors.Is(err, store.ErrNoSpace) {
		t.Fatal(err)
	}
	failCommits(s, func() error { return nil })
	if err := c.AddIndexers(context.Background(), cache.Indexers{"x": by("two")}, nil); err != nil {
		t.Fatal(err)
	}
	values, err := c.IndexValues(t.Context(), "x")
	if err != nil || len(values) != 1 || values[0] != "two" {
		t.Errorf("%q, %v", values, err)
	}
	mustClose(t, s)
}

func TestAddIndexersWhileBusy(t *testing.T) {
	s := mustOpen(t, t.TempDir()+"/store", store.Options{})
	store.NoSync(s)
	c := openAs(t, s, store.All)
	const n = 10_000
	mustList(t, c, n)
	var stop atomic.Bool
	var writer sync.WaitGroup
	writer.Go(func() {
		for i := 0; !stop.Load(); i++ {
			if err := applyPod(t, c, podAt(i%n, fmt.Sprint(100_000+i))); err != nil {
				t.Error(err)
				return
			}
		}
	})
	err := c.AddIndexers(context.Background(),
		cache.Indexers{"x": func(any) ([]string, error) { return []string{"v"}, nil }}, nil)
	stop.Store(true)
	writer.Wait()
	keys, err2 := c.IndexKeys(t.Context(), "x", "v")
	if err != nil || err2 != nil || len(keys) != n {
		t.Errorf("%d keys, %v, %v", len(keys), err, err2)
	}
	mustClose(t, s)
}

// TestWriteThroughAClosedCollection checks that a closed Collection refuses writes, but can be read, while another
// Collection has the same stored collection open.
func TestWriteThroughAClosedCollection(t *testing.T) {
	s := mustOpen(t, t.TempDir()+"/store", store.Options{})
	first := openAs(t, s, store.All)
	mustList(t, first, 3)
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	openAs(t, s, store.All)
	if err := applyPod(t, first, podAt(0, "7000")); !errors.Is(err, store.ErrClosed) {
		t.Error(err)
	}
	if obj, err := first.Get(t.Context(), "namespace-0/pod-0000"); obj == nil || err != nil {
		t.Errorf("it cannot be read any more: %v", err)
	}
	mustClose(t, s)
}

// TestIterateDoesNotGoBack checks that Iterate passes no older state than its callback has read or written.
func TestIterateDoesNotGoBack(t *testing.T) {
	for _, r := range []store.Residency{store.All, store.None} {
		s := mustOpen(t, t.TempDir()+"/store", store.Options{})
		c := openAs(t, s, r)
		mustList(t, c, 1000)
		keys, err := c.Keys(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		seen := ""
		err = c.Iterate(t.Context(), "", func(key string, obj runtime.Object) error {
			if key == keys[0] {
				if r == store.All {
					failNow(t, s)
					if err := copyAgain(s); err != nil {
						return err
					}
				}
				late, err := c.Get(t.Context(), keys[700])
				if err != nil {
					return err
				}
				p := late.(*corev1.Pod).DeepCopy()
				p.ResourceVersion = "9000"
				return applyPod(t, c, p)
			}
			if key == keys[700] {
				seen = rvOf(obj)
			}
			return nil
		})
		if err != nil || seen != "9000" {
			t.Errorf("%s: %s, %v", r, seen, err)
		}
		mustClose(t, s)
	}
}
