package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/larder-dev/larder/entry"
	bolt "go.etcd.io/bbolt"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
)

// openAs opens the collection of pods and waits until it is in memory as it is to be.
func openAs(t *testing.T, s *Store, r Residency) *Collection {
	t.Helper()
	c, err := s.Collection(t.Context(), pods(), CollectionOptions{
		Residency: r, Codec: mustCodec(t, &corev1.Pod{}), Indexers: cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc},
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

func applyPod(t *testing.T, c *Collection, p *corev1.Pod) error {
	t.Helper()
	_, err := c.Apply(t.Context(), Batch{Ops: []Op{{Object: p}}, ResourceVersion: p.ResourceVersion})
	return err
}

func rvOf(obj runtime.Object) string {
	if obj == nil {
		return "none"
	}
	return obj.(*corev1.Pod).ResourceVersion
}

// A look-up that has looked into the old base must look into the new one.
func TestTableLoadDuringASettle(t *testing.T) {
	k := newTable()
	k.byKey.between = func() {
		k.byKey.between = nil
		k.byKey.settle()
	}
	k.put("a", tableState("1"))
	if k.get("a") == nil {
		t.Error("a key that is there is not found")
	}
	again := newTable()
	again.put("a", tableState("1"))
	again.byKey.between = func() {
		again.byKey.between = nil
		again.byKey.settle()
	}
	again.put("a", tableState("2"))
	if s := again.state("a"); s.rv != "2" || again.len() != 1 {
		t.Errorf("%d rows, state %s", again.len(), s.rv)
	}
}

// Info never says a resourceVersion that the objects in memory have not reached.
func TestInfoIsNotAheadOfObjects(t *testing.T) {
	for _, interval := range []time.Duration{0, -1} {
		s := mustOpen(t, t.TempDir()+"/store", Options{CommitInterval: interval})
		NoSync(s)
		c := openAs(t, s, All)
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
				if err != nil || err2 != nil || entry.NewerRV(info.ResourceVersion, rvOf(obj)) {
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

// What a failed AddIndexers has left in memory does not count.
func TestAddIndexersAfterOneThatFailed(t *testing.T) {
	s := mustOpen(t, t.TempDir()+"/store", Options{})
	c := openAs(t, s, All)
	mustList(t, c, 10)
	by := func(v string) cache.IndexFunc { return func(any) ([]string, error) { return []string{v}, nil } }
	FailCommits(s, func() error { return syscall.ENOSPC })
	if err := c.AddIndexers(context.Background(), cache.Indexers{"x": by("one")}, nil); !errors.Is(err, ErrNoSpace) {
		t.Fatal(err)
	}
	FailCommits(s, func() error { return nil })
	if err := c.AddIndexers(context.Background(), cache.Indexers{"x": by("two")}, nil); err != nil {
		t.Fatal(err)
	}
	values, err := c.IndexValues(t.Context(), "x")
	if err != nil || len(values) != 1 || values[0] != "two" {
		t.Errorf("%q, %v", values, err)
	}
	mustClose(t, s)
}

// AddIndexers comes to an end however fast batches come.
func TestAddIndexersWhileBusy(t *testing.T) {
	s := mustOpen(t, t.TempDir()+"/store", Options{})
	NoSync(s)
	c := openAs(t, s, All)
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
	err := c.AddIndexers(context.Background(), cache.Indexers{"x": func(any) ([]string, error) { return []string{"v"}, nil }}, nil)
	stop.Store(true)
	writer.Wait()
	keys, err2 := c.IndexKeys(t.Context(), "x", "v")
	if err != nil || err2 != nil || len(keys) != n {
		t.Errorf("%d keys, %v, %v", len(keys), err, err2)
	}
	mustClose(t, s)
}

// An object that a rebuild has lost, and that the server has deleted meanwhile, is not kept in memory.
func TestRebuildForgetsWhatIsInMemory(t *testing.T) {
	for _, r := range []Residency{All, Bounded(64 << 20)} {
		s := mustOpen(t, t.TempDir()+"/store", Options{})
		c := openAs(t, s, r)
		mustList(t, c, 10)
		const key = "namespace-3/pod-0003"
		if obj, err := c.Get(t.Context(), key); obj == nil || err != nil {
			t.Fatal(err)
		}
		err := Tamper(c, func(b *bolt.Bucket) error {
			data := append([]byte(nil), b.Bucket(bucketObjects).Get([]byte(key))...)
			data[len(data)-5] ^= 1
			return b.Bucket(bucketObjects).Put([]byte(key), data)
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Scrub(t.Context()); !errors.Is(err, entry.ErrDamaged) {
			t.Fatal(err)
		}
		if err := s.Rebuild(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := c.WaitResident(t.Context()); err != nil {
			t.Fatal(err)
		}
		if obj, err := c.Get(t.Context(), key); obj != nil || err != nil {
			t.Errorf("%s: still there: %v", r, err)
		}
		mustClose(t, s)
	}
}

// A closed collection takes nothing in once another has opened it.
func TestWriteThroughAClosedCollection(t *testing.T) {
	s := mustOpen(t, t.TempDir()+"/store", Options{})
	first := openAs(t, s, All)
	mustList(t, first, 3)
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	openAs(t, s, All)
	if err := applyPod(t, first, podAt(0, "7000")); !errors.Is(err, ErrCollectionOpen) {
		t.Error(err)
	}
	if obj, err := first.Get(t.Context(), "namespace-0/pod-0000"); obj == nil || err != nil {
		t.Errorf("it can not be read any more: %v", err)
	}
	mustClose(t, s)
}

// What fn has read, or written, is not older when Iterate comes to it.
func TestIterateDoesNotGoBack(t *testing.T) {
	for _, r := range []Residency{All, Bounded(64 << 20), None} {
		s := mustOpen(t, t.TempDir()+"/store", Options{})
		c := openAs(t, s, r)
		mustList(t, c, 1000)
		keys, err := c.Keys(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		seen := ""
		err = c.Iterate(t.Context(), "", func(key string, obj runtime.Object) error {
			if key == keys[0] {
				if r == All {
					s.failNow(fmt.Errorf("%w: from the test", entry.ErrDamaged))
					if err := s.Rebuild(t.Context()); err != nil {
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

// WaitResident speaks of the filling that it has waited for.
func TestWaitResidentWhileFillingsFollow(t *testing.T) {
	s := mustOpen(t, t.TempDir()+"/store", Options{})
	c := openAs(t, s, All)
	mustList(t, c, 1000)
	var waiter sync.WaitGroup
	for range 50 {
		waiter.Go(func() {
			if err := c.WaitResident(t.Context()); err != nil || c.resident.Load() == nil {
				t.Error(err)
			}
		})
		c.startFilling()
	}
	waiter.Wait()
	if err := c.WaitResident(t.Context()); err != nil || c.inMemory() == nil {
		t.Errorf("%v; in memory %v", err, c.inMemory() != nil)
	}
	mustClose(t, s)
}
