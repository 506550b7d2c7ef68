package store_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	bolt "go.etcd.io/bbolt"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/storetest/disk"
	"github.com/larder-dev/larder/store"
	"github.com/larder-dev/larder/store/query"
)

// openCompressed opens the collection of pods with dictionaries that need only a few pods.
func openCompressed(t *testing.T, s *store.Store, compression store.Compression) *store.Collection {
	t.Helper()
	c, err := s.Collection(t.Context(), pods(), store.CollectionOptions{
		Residency: store.None, Compression: compression, Codec: mustCodec(t, &corev1.Pod{}),
		Indexers:      cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc},
		IndexVersions: map[string]string{cache.NamespaceIndex: "1"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if compression != store.NoCompression {
		store.SetSampling(c, 4<<10, 16<<10)
	}
	return c
}

func wantSound(t *testing.T, s *store.Store) {
	t.Helper()
	if r, err := s.Check(t.Context()); err != nil || len(r.Problems) > 0 {
		t.Errorf("check: %q, %v", r.Problems, err)
	}
}

func wantPods(t *testing.T, c *store.Collection, n int, change func(*corev1.Pod)) {
	t.Helper()
	for i := range n {
		want := somePod(i)
		if change != nil {
			change(want)
		}
		key := want.Namespace + "/" + want.Name
		obj, err := c.Get(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := obj.(*corev1.Pod); !ok || got.ResourceVersion != want.ResourceVersion ||
			got.Annotations["padding"] != want.Annotations["padding"] || got.Spec.NodeName != want.Spec.NodeName {
			t.Fatalf("%s is %+v", key, obj)
		}
	}
	if got, info := count(t, c); got != n || info.Objects != n {
		t.Errorf("%d objects, %+v, want %d", got, info, n)
	}
}

func compressionOf(t *testing.T, c *store.Collection) (total, packed, dicts int) {
	t.Helper()
	total, by, err := compressedBy(c)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range by {
		packed += n
	}
	keys, err := dictionaries(c)
	if err != nil {
		t.Fatal(err)
	}
	if len(keys) < len(by) {
		t.Errorf("%d dictionaries are in use, and %d are there", len(by), len(keys))
	}
	return total, packed, len(keys)
}

func applyNewer(t *testing.T, c *store.Collection, from, to, rv int) {
	t.Helper()
	var b entry.Batch
	for i := from; i < to; i++ {
		pod := somePod(i)
		pod.ResourceVersion = fmt.Sprint(rv)
		b.Ops = append(b.Ops, entry.Op{Object: pod})
	}
	b.ResourceVersion = fmt.Sprint(rv)
	if _, err := c.Apply(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if err := store.StoreOf(c).Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestCompressionOnAndOff checks that Compression can change at any open: all records stay readable without a list.
func TestCompressionOnAndOff(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store")
	const n = 200
	rvs := map[int]int{}
	for round, test := range []struct {
		compression    store.Compression
		from, to       int
		packed, dicted int
	}{
		{store.NoCompression, 0, 0, 0, 0},
		{store.Zstd, 0, 100, 100, 1},
		{store.NoCompression, 50, 120, 50, 1},
		{store.Zstd, 60, 200, 190, 1},
	} {
		s := mustOpen(t, path, store.Options{})
		c := openCompressed(t, s, test.compression)
		if round == 0 {
			mustList(t, c, n)
		}
		if info, err := c.Info(t.Context()); err != nil || info.MustRelist != "" || info.ResourceVersion == "" {
			t.Errorf("round %d: %+v, %v", round, info, err)
		}
		if test.to > 0 {
			applyNewer(t, c, test.from, test.to, 5000+round)
		}
		for i := test.from; i < test.to; i++ {
			rvs[i] = 5000 + round
		}
		wantPods(t, c, n, func(pod *corev1.Pod) {
			i := 0
			if _, err := fmt.Sscanf(pod.Name, "pod-%d", &i); err == nil && rvs[i] > 0 {
				pod.ResourceVersion = fmt.Sprint(rvs[i])
			}
		})
		if total, packed, dicts := compressionOf(t, c); total != n || packed != test.packed || dicts != test.dicted {
			t.Errorf("round %d: %d of %d records are compressed, with %d dictionaries; want %d with %d", round, packed, total,
				dicts, test.packed, test.dicted)
		}
		wantSound(t, s)
		mustClose(t, s)
	}
}

// TestCompressionMakesADictionary checks that a dictionary is built from the first page of a list, or from the first
// batches once there are enough samples. Earlier payloads are stored uncompressed.
func TestCompressionMakesADictionary(t *testing.T) {
	t.Run("List", func(t *testing.T) {
		c := openCompressed(t, mustOpen(t, filepath.Join(t.TempDir(), "store"), store.Options{}), store.Zstd)
		mustList(t, c, 1000)
		wantPods(t, c, 1000, nil)
		if total, packed, dicts := compressionOf(t, c); total != packed || dicts != 1 {
			t.Errorf("%d of %d, %d dictionaries", packed, total, dicts)
		}
	})
	t.Run("Batches", func(t *testing.T) {
		c := openCompressed(t, mustOpen(t, filepath.Join(t.TempDir(), "store"), store.Options{}), store.Zstd)
		mustList(t, c, 0)
		for i := range 200 {
			applyNewer(t, c, i, i+1, 5000+i)
		}
		if total, packed, dicts := compressionOf(t, c); total != 200 || packed < 100 || packed > 190 || dicts != 1 {
			t.Errorf("%d of %d, %d dictionaries", packed, total, dicts)
		}
	})
	t.Run("Few", func(t *testing.T) {
		c := openCompressed(t, mustOpen(t, filepath.Join(t.TempDir(), "store"), store.Options{}), store.Zstd)
		mustList(t, c, 5)
		wantPods(t, c, 5, nil)
		if _, packed, dicts := compressionOf(t, c); packed != 0 || dicts != 0 {
			t.Errorf("%d compressed, %d dictionaries", packed, dicts)
		}
	})
}

// TestIncompressiblePayloads checks that payloads that compression does not shrink are stored uncompressed.
func TestIncompressiblePayloads(t *testing.T) {
	s := mustOpen(t, filepath.Join(t.TempDir(), "store"), store.Options{})
	c, err := s.Collection(t.Context(), pods(), store.CollectionOptions{Residency: store.None, Compression: store.Zstd,
		Codec: mustCodec(t, &corev1.ConfigMap{})})
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 1))
	var b entry.Batch
	for i := range 400 {
		data := make([]byte, 2000)
		for j := range data {
			data[j] = byte(r.Uint32())
		}
		b.Ops = append(b.Ops, entry.Op{Object: &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(i),
			ResourceVersion: "1"}, BinaryData: map[string][]byte{"": data}}})
	}
	if _, err := c.Apply(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	// Random payloads are compressible only if the dictionary contains them.
	if total, packed, _ := compressionOf(t, c); total != 400 || packed > (64<<10)/2000+1 {
		t.Errorf("%d of %d are compressed", packed, total)
	}
	if n, _ := count(t, c); n != 400 {
		t.Errorf("%d objects", n)
	}
}

func TestCompressionOfVariedPods(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, filepath.Join(t.TempDir(), "store"), store.Options{})
	codec := mustCodec(t, &corev1.Pod{})
	c, err := s.Collection(t.Context(), pods(),
		store.CollectionOptions{Residency: store.None, Compression: store.Zstd, Codec: codec})
	if err != nil {
		t.Fatal(err)
	}
	n := soaked(400, 700)
	want := newVariedPods(n, 30).page(n)
	wantSame := storeVaried(t, c, want)
	plain, packed := payloadBytes(t, c)
	if ratio := float64(plain) / float64(packed); ratio < 4 {
		t.Errorf("%d bytes became %d, 1:%.2f", plain, packed, ratio)
	}
	objs, err := c.List(t.Context())
	wantSame("List", objs, err)
	objs = nil
	err = c.Iterate(t.Context(), "", func(_ string, obj runtime.Object) error { objs = append(objs, obj); return nil })
	wantSame("Iterate", objs, err)
	objs, err = c.Select(t.Context(), query.Query{Fields: fields.OneTermEqualSelector("status.phase", "Running")})
	wantSame("Select", objs, err)
	if objs, err := c.Select(t.Context(),
		query.Query{Labels: labels.SelectorFromSet(labels.Set{"team": "none"})}); err != nil || len(objs) > 0 {
		t.Errorf("%d objects without the label, %v", len(objs), err)
	}
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	v, err := s.ViewWith(t.Context(), pods(), codec)
	if err != nil {
		t.Fatal(err)
	}
	objs, err = v.List(t.Context())
	wantSame("View", objs, err)
	wantSound(t, s)
}

// storeVaried lists the pods into c. The returned function fails the test unless the read objects equal the pods.
func storeVaried(t *testing.T, c *store.Collection, want []runtime.Object) func(what string, got []runtime.Object,
	err error) {
	t.Helper()
	r, err := c.BeginReplace(t.Context(), store.ReplaceOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Abort()
	if _, err := r.Page(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Commit(t.Context(), entry.Batch{ResourceVersion: fmt.Sprint(variedRV)}); err != nil {
		t.Fatal(err)
	}
	codec := mustCodec(t, want[0])
	encode := func(obj runtime.Object) string {
		data, err := codec.Append(nil, obj)
		if err != nil {
			t.Error(err)
		}
		return string(data)
	}
	bodies := map[string]bool{}
	for _, obj := range want {
		bodies[encode(obj)] = true
	}
	return func(what string, got []runtime.Object, err error) {
		t.Helper()
		if err != nil || len(got) != len(want) {
			t.Errorf("%s: %d objects, %v", what, len(got), err)
		}
		for _, obj := range got {
			if !bodies[encode(obj)] {
				t.Errorf("%s: %v is not what was stored", what, obj)
			}
		}
	}
}

func TestCompressionConcurrently(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, filepath.Join(t.TempDir(), "store"), store.AtOnce(store.Options{}))
	store.NoSync(s)
	c := openCompressed(t, s, store.Zstd)
	mustList(t, c, 300)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	c = openCompressed(t, s, store.Zstd)
	view, err := s.ViewWith(t.Context(), pods(), mustCodec(t, &corev1.Pod{}))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var wg sync.WaitGroup
	for _, read := range []func() error{
		func() error { _, err := c.Get(ctx, "namespace-1/pod-0001"); return err },
		func() error { _, err := view.List(ctx); return err },
		func() error {
			return c.Iterate(ctx, "", func(string, runtime.Object) error { return nil })
		},
		func() error {
			_, err := c.Select(ctx, query.Query{Fields: fields.OneTermEqualSelector("spec.nodeName", "node-3")})
			return err
		},
	} {
		wg.Go(func() {
			for ctx.Err() == nil {
				if err := read(); err != nil && ctx.Err() == nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for i := range 20 {
		applyNewer(t, c, 10*i, 10*i+100, 5000+i)
	}
	cancel()
	wg.Wait()
	wantSound(t, s)
}

// TestCompressionSurvivesAFailedCommit checks that the next commit writes the records and their dictionary.
func TestCompressionSurvivesAFailedCommit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store")
	s := mustOpen(t, path, store.Options{})
	c := openCompressed(t, s, store.Zstd)
	mustList(t, c, 0)
	failCommits(s, func() error { return syscall.ENOSPC })
	var b entry.Batch
	for i := range 200 {
		b.Ops = append(b.Ops, entry.Op{Object: somePod(i)})
	}
	if _, err := c.Apply(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if err := s.Flush(t.Context()); !errors.Is(err, store.ErrNoSpace) {
		t.Fatal(err)
	}
	if _, _, dicts := compressionOf(t, c); dicts != 0 {
		t.Errorf("%d dictionaries without a commit", dicts)
	}
	failCommits(s, func() error { return nil })
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if total, packed, dicts := compressionOf(t, c); total != 200 || packed != 200 || dicts != 1 {
		t.Errorf("%d of %d, %d dictionaries", packed, total, dicts)
	}
	mustClose(t, s)
	s = mustOpen(t, path, store.Options{})
	wantPods(t, openCompressed(t, s, store.NoCompression), 200, nil)
	wantSound(t, s)
}

func TestCompressionMustBeKnown(t *testing.T) {
	s := mustOpen(t, filepath.Join(t.TempDir(), "store"), store.Options{})
	_, err := s.Collection(t.Context(), pods(), store.CollectionOptions{Codec: mustCodec(t, somePod(0)),
		Compression: "lz4"})
	if err == nil || !strings.Contains(err.Error(), `"lz4"`) {
		t.Errorf("got %v", err)
	}
}

// payloadBytes returns the total size of the encoded objects, and of the stored payloads with their dictionaries.
func payloadBytes(t testing.TB, c *store.Collection) (plain, packed int) {
	t.Helper()
	err := viewOf(c, func(bucket *bolt.Bucket) error {
		return disk.Each(bucket.Bucket(disk.Dictionaries), func(_, v []byte) error { packed += len(v); return nil })
	})
	if err != nil {
		t.Fatal(err)
	}
	err = eachRecord(c, func(_ string, r disk.Record) error {
		plain, packed = plain+r.PlainSize(), packed+len(r.Payload)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return plain, packed
}
