package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	bolt "go.etcd.io/bbolt"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/storetest/disk"
	"github.com/larder-dev/larder/store"
	"github.com/larder-dev/larder/store/consumer"
	"github.com/larder-dev/larder/store/seal"
)

func wantIndexed(t *testing.T, c *store.Collection, n int) {
	t.Helper()
	byNamespace := map[string][]string{}
	for i := range n {
		p := somePod(i)
		byNamespace[p.Namespace] = append(byNamespace[p.Namespace], p.Namespace+"/"+p.Name)
	}
	var namespaces []string
	for namespace, want := range byNamespace {
		namespaces = append(namespaces, namespace)
		if keys, err := c.IndexKeys(t.Context(), cache.NamespaceIndex, namespace); err != nil || !slices.Equal(keys, want) {
			t.Errorf("%s: %q, want %q, %v", namespace, keys, want, err)
		}
		if objs, err := c.ByIndex(t.Context(), cache.NamespaceIndex, namespace); err != nil || len(objs) != len(want) {
			t.Errorf("%s: %d objects, %v", namespace, len(objs), err)
		}
	}
	slices.Sort(namespaces)
	if values, err := c.IndexValues(t.Context(), cache.NamespaceIndex); err != nil || !slices.Equal(values, namespaces) {
		t.Errorf("values %q, %v", values, err)
	}
	v, err := store.StoreOf(c).ViewWith(t.Context(), pods(), mustCodec(t, &corev1.Pod{}))
	if err != nil {
		t.Fatal(err)
	}
	if values, err := v.IndexValues(t.Context(), cache.NamespaceIndex); err != nil || !slices.Equal(values, namespaces) {
		t.Errorf("values of a view %q, %v", values, err)
	}
}

func mustRekey(t *testing.T, s *store.Store) {
	t.Helper()
	if _, err := s.Rekey(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func wantDataKeys(t *testing.T, s *store.Store, want int) {
	t.Helper()
	if ids, err := dataKeys(s); err != nil || len(ids) != want {
		t.Errorf("%d data keys in the file, want %d, %v", len(ids), want, err)
	}
}

// TestRotation checks a new encryption key that is put before the old key: old records can still be read, new records
// are sealed under the new key, and after Rekey the old key is not needed.
func TestRotation(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store")
	old, fresh := mustKey(t, "old"), mustKey(t, "fresh")
	writeSealed(t, path, 20, sealing(t, old))

	s := mustOpen(t, path, store.Options{Encryption: sealing(t, fresh, old)})
	wantDataKeys(t, s, 1)
	c := mustCollection(t, s, pods())
	wantPods(t, c, 20, nil)
	applyNewer(t, c, 0, 7, 5000)
	wantDataKeys(t, s, 2)
	rotated := func(p *corev1.Pod) {
		if p.Name < "pod-0007" {
			p.ResourceVersion = "5000"
		}
	}
	wantPods(t, c, 20, rotated)
	wantIndexed(t, c, 20)
	wantSound(t, s)
	mustClose(t, s)

	for _, one := range []string{old, fresh} {
		if s, err := store.Open(path, store.Options{Logger: &quiet, Encryption: sealing(t, one)}); s != nil ||
			!errors.Is(err, seal.ErrWrongKey) {
			t.Fatalf("with one of the keys: %v", err)
		}
	}
	done, err := store.Rekey(t.Context(), path, store.Options{Logger: &quiet, Encryption: sealing(t, fresh, old)})
	if err != nil || done.After == 0 {
		t.Fatal(done, err)
	}
	if s, err := store.Open(path, store.Options{Logger: &quiet, Encryption: sealing(t, old)}); s != nil ||
		!errors.Is(err, seal.ErrWrongKey) {
		t.Errorf("with the old key: %v", err)
	}
	s = mustOpen(t, path, store.Options{Encryption: sealing(t, fresh)})
	wantDataKeys(t, s, 1)
	c = mustCollection(t, s, pods())
	wantPods(t, c, 20, rotated)
	wantIndexed(t, c, 20)
	wantSound(t, s)
	if n := len(mustKeysOf(t, s, goldenWidgetsID())); n != goldenWidgetCount {
		t.Errorf("%d widgets", n)
	}
	mustClose(t, s)
}

// TestSealingOverPlainText checks a store that gets an encryption key later: plain records stay readable, Info and the
// log report them, new records are sealed, and Rekey seals all.
func TestSealingOverPlainText(t *testing.T) {
	for _, compression := range []store.Compression{store.NoCompression, store.Zstd} {
		t.Run("compression "+string(compression), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "store")
			s := mustOpen(t, path, store.Options{})
			c := openCompressed(t, s, compression)
			mustList(t, c, 80)
			mustClose(t, s)

			var log logged
			e := sealing(t, mustKey(t, ""))
			s = mustOpen(t, path, store.Options{Encryption: e, Logger: log.logger()})
			c = openCompressed(t, s, compression)
			wantPods(t, c, 80, nil)
			applyNewer(t, c, 0, 60, 5000)
			newer := func(p *corev1.Pod) {
				if p.Name < "pod-0060" {
					p.ResourceVersion = "5000"
				}
			}
			wantPods(t, c, 80, newer)
			wantIndexed(t, c, 80)
			wantSound(t, s)
			if info := mustInfo(t, c); !info.Sealed || !info.PlainText {
				t.Errorf("%+v", info)
			}
			mustEnd(t, c)
			c = openCompressed(t, s, compression)
			if n := log.count("legible", "rekeyed", "pods"); n != 1 {
				t.Errorf("the log warns %d times", n)
			}
			if n, err := plainRecords(s); err != nil || n < 20 {
				t.Errorf("%d records in plain text, %v", n, err)
			}

			mustRekey(t, s)
			if n, err := plainRecords(s); err != nil || n > 0 {
				t.Errorf("%d records in plain text after a rekey, %v", n, err)
			}
			if info := mustInfo(t, c); !info.Sealed || info.PlainText {
				t.Errorf("%+v", info)
			}
			if data := mustRead(t, path); bytes.Contains(data, []byte(strings.Repeat("x", 100))) ||
				bytes.Contains(data, []byte("node-3")) {
				t.Error("there is plain text in the file")
			}
			wantPods(t, c, 80, newer)
			applyNewer(t, c, 60, 80, 5000)
			wantSound(t, s)
			mustClose(t, s)
			s = mustOpen(t, path, store.Options{Encryption: e})
			c = openCompressed(t, s, compression)
			wantPods(t, c, 80, func(p *corev1.Pod) { p.ResourceVersion = "5000" })
			wantIndexed(t, c, 80)
			mustClose(t, s)
		})
	}
}

// TestRekeyKeepsTheState matters because Info.Newest, for example, cannot be computed from the objects.
func TestRekeyKeepsTheState(t *testing.T) {
	for name, remake := range map[string]func(s *store.Store) error{
		"rekey": func(s *store.Store) error { _, err := s.Rekey(t.Context()); return err },
		"copy":  func(s *store.Store) error { failNow(t, s); return copyAgain(s) },
	} {
		s := mustOpen(t, filepath.Join(t.TempDir(), "store"), store.Options{Encryption: sealing(t, mustKey(t, ""))})
		c := mustCollection(t, s, pods())
		mustList(t, c, 20)
		b := entry.Batch{ResourceVersion: "7000"}
		for i := 15; i < 20; i++ {
			b.Ops = append(b.Ops, entry.Op{Type: entry.Delete, Object: somePod(i)})
		}
		if _, err := c.Apply(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		if err := s.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		before := mustInfo(t, c)
		if err := remake(s); err != nil {
			t.Fatal(err)
		}
		if after := mustInfo(t, c); fmt.Sprint(after) != fmt.Sprint(before) {
			t.Errorf("%s: info was %+v and is %+v", name, before, after)
		}
		mustClose(t, s)
	}
}

// TestRewriteSealsAnew checks that a list with ReplaceOptions.Rewrite leaves no record that an old key has sealed.
func TestRewriteSealsAnew(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store")
	old, fresh := mustKey(t, "old"), mustKey(t, "fresh")
	writeSealed(t, path, 20, sealing(t, old))
	s := mustOpen(t, path, store.Options{Encryption: sealing(t, fresh, old)})
	c := mustCollection(t, s, pods())
	r, err := c.BeginReplace(t.Context(), store.ReplaceOptions{Rewrite: true})
	if err != nil {
		t.Fatal(err)
	}
	var page []runtime.Object
	for i := range 20 {
		page = append(page, somePod(i))
	}
	if _, err := r.Page(t.Context(), page); err != nil {
		t.Fatal(err)
	}
	if res, err := r.Commit(t.Context(), entry.Batch{ResourceVersion: "3000"}); err != nil || len(res.Changes) > 0 {
		t.Errorf("%d changes, %v", len(res.Changes), err)
	}
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	ids, err := dataKeys(s)
	if err != nil || len(ids) != 2 {
		t.Fatal(ids, err)
	}
	err = eachRecord(c, func(key string, r disk.Record) error {
		if r.SealedBy != ids[1] {
			t.Errorf("%s is sealed with %x, not with %x", key, r.SealedBy, ids[1])
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	wantPods(t, c, 20, nil)
	mustClose(t, s)
}

// TestRekeyWhileServing checks that reads and writes continue during Rekey and see all objects.
func TestRekeyWhileServing(t *testing.T) {
	t.Parallel()
	for _, residency := range []store.Residency{store.All, store.None} {
		t.Run(residency.String(), func(t *testing.T) {
			t.Parallel()
			const n = 100
			s := mustOpen(t, filepath.Join(t.TempDir(), "store"),
				store.AtOnce(store.Options{Encryption: sealing(t, mustKey(t, ""))}))
			store.NoSync(s)
			c := openAs(t, s, residency)
			mustList(t, c, n)
			v, err := s.ViewWith(t.Context(), pods(), mustCodec(t, &corev1.Pod{}))
			if err != nil {
				t.Fatal(err)
			}
			var stop atomic.Bool
			var reads, writes atomic.Int64
			var wg sync.WaitGroup
			wg.Go(func() {
				for i := 0; !stop.Load(); i++ {
					if err := applyPod(t, c, podAt(i%n, fmt.Sprint(5000+i))); err != nil {
						t.Error(err)
						return
					}
					writes.Add(1)
				}
			})
			wg.Go(func() {
				for i := 0; !stop.Load(); i++ {
					want := somePod(i % n)
					obj, err := c.Get(t.Context(), want.Namespace+"/"+want.Name)
					if obj == nil || err != nil {
						t.Errorf("%s: %v, %v", want.Name, obj, err)
						return
					}
					if keys, err := c.IndexKeys(t.Context(), cache.NamespaceIndex, want.Namespace); err != nil || len(keys) != n/5 {
						t.Errorf("%d keys, %v", len(keys), err)
						return
					}
					if objs, err := v.List(t.Context()); err != nil || len(objs) != n {
						t.Errorf("%d objects, %v", len(objs), err)
						return
					}
					reads.Add(1)
				}
			})
			for range soaked(3, 6) {
				before, beforeReads := writes.Load(), reads.Load()
				mustRekey(t, s)
				for (writes.Load() == before || reads.Load() == beforeReads) && !t.Failed() {
					if _, err := c.Info(t.Context()); err != nil {
						t.Error(err)
					}
				}
			}
			stop.Store(true)
			wg.Wait()
			wantDataKeys(t, s, 1)
			wantIndexed(t, c, n)
			wantSound(t, s)
			mustClose(t, s)
		})
	}
}

// TestRekeyOfAChangelog checks that durable handlers can read tombstones that Rekey has sealed again.
func TestRekeyOfAChangelog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store")
	e := sealing(t, mustKey(t, ""))
	s := mustOpen(t, path, store.AtOnce(store.Options{Encryption: e}))
	c := mustCollection(t, s, pods())
	mustList(t, c, 10)
	f := mustOpenCursor(t, c, "h")
	position, _, err := f.Position()
	if err != nil {
		t.Fatal(err)
	}
	gone := somePod(3)
	gone.ResourceVersion, gone.Annotations["why"] = "7000", "sent with the delete"
	if _, err := c.Apply(t.Context(), entry.Batch{Ops: []entry.Op{{Type: entry.Delete, Object: gone},
		{Type: entry.Delete, Object: somePod(4)}}, ResourceVersion: "7000"}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if n, err := plainRecords(s); err != nil || n > 0 {
			t.Errorf("%d records in plain text, %v", n, err)
		}
		p, _, err := f.Read(t.Context(), consumer.Position{Seq: position.Seq})
		if err != nil || len(p.Changes) != 2 {
			t.Fatal(p, err)
		}
		if pod, ok := p.Changes[0].Object.(*corev1.Pod); !ok || pod.Annotations["why"] != "sent with the delete" ||
			pod.ResourceVersion != "7000" {
			t.Errorf("received %v", p.Changes[0].Object)
		}
		if pod, ok := p.Changes[1].Object.(*corev1.Pod); !ok || pod.Name != "pod-0004" {
			t.Errorf("received %v", p.Changes[1].Object)
		}
		wantSound(t, s)
		mustRekey(t, s)
	}
	mustClose(t, s)
	s = mustOpen(t, path, store.Options{Encryption: e})
	wantSound(t, s)
	mustClose(t, s)
}

// TestRekeyDuringAList checks that Rekey seals the changes that a running list has already made visible.
func TestRekeyDuringAList(t *testing.T) {
	s := mustOpen(t, filepath.Join(t.TempDir(), "store"), store.Options{Encryption: sealing(t, mustKey(t, ""))})
	c := mustCollection(t, s, pods())
	mustList(t, c, 30)
	store.SetLimits(c, 100, 1<<20)
	r, err := c.BeginReplace(t.Context(), store.ReplaceOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Abort()
	changes := 0
	for i := range 30 {
		res, err := r.Page(t.Context(), []runtime.Object{podAt(i, "8000")})
		if err != nil {
			t.Fatal(err)
		}
		changes += len(res.Changes)
		if i == 15 {
			mustRekey(t, s)
			if n, err := plainRecords(s); err != nil || n > 0 {
				t.Errorf("%d records in plain text, %v", n, err)
			}
		}
	}
	if res, err := r.Commit(t.Context(), entry.Batch{ResourceVersion: "8000"}); err != nil ||
		changes+len(res.Changes) != 30 {
		t.Errorf("%d and %d changes, %v", changes, len(res.Changes), err)
	}
	wantPods(t, c, 30, func(p *corev1.Pod) { p.ResourceVersion = "8000" })
	wantIndexed(t, c, 30)
	wantSound(t, s)
	mustClose(t, s)
}

// TestRekeyKeepsUnknownBuckets checks that Rekey copies buckets and entries of a newer program, and refuses a file with
// a record of a newer format without changing the file.
func TestRekeyKeepsUnknownBuckets(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store")
	e := sealing(t, mustKey(t, ""))
	writeSealed(t, path, 10, e)
	s := mustOpen(t, path, store.Options{Encryption: e})
	err := store.UpdateFile(context.Background(), s, func(tx *bolt.Tx) error {
		b, err := disk.Collection(tx, pods().ID())
		if err != nil {
			return err
		}
		future, err := b.CreateBucket([]byte("future"))
		if err != nil {
			return err
		}
		return errors.Join(future.Put([]byte("k"), []byte("v")), b.Put([]byte("later"), []byte("w")))
	})
	if err != nil {
		t.Fatal(err)
	}
	mustRekey(t, s)
	err = store.UpdateFile(context.Background(), s, func(tx *bolt.Tx) error {
		b, err := disk.Collection(tx, pods().ID())
		if err != nil {
			return err
		}
		if future := b.Bucket([]byte("future")); future == nil || string(future.Get([]byte("k"))) != "v" ||
			string(b.Get([]byte("later"))) != "w" {
			t.Error("what it does not know is gone")
		}
		key := []byte("namespace-0/pod-0000")
		record := bytes.Clone(b.Bucket(disk.Objects).Get(key))
		record[0] = disk.Sealed + 1
		return b.Bucket(disk.Objects).Put(key, disk.Reseal(pods().ID(), string(key), record))
	})
	if err != nil {
		t.Fatal(err)
	}
	ids, err := dataKeys(s)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Rekey(t.Context()); !errors.Is(err, entry.ErrIncompatible) || isDamaged(err) {
		t.Errorf("a record of a newer program: %v", err)
	}
	if again, err := dataKeys(s); err != nil || !slices.Equal(again, ids) || s.Err() != nil {
		t.Errorf("after a rekey that failed: keys %x, were %x, %v, %v", again, ids, err, s.Err())
	}
	applyNewer(t, mustCollection(t, s, pods()), 1, 5, 9000)
	wantDataKeys(t, s, 1)
	mustClose(t, s)
}
