package store_test

import (
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"os"
	"strconv"
	"syscall"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/storetest/disk"
	"github.com/larder-dev/larder/store"
	"github.com/larder-dev/larder/store/query"
)

// cpuTime returns the CPU time of the process so far. On a shared machine it varies less than the elapsed time.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// variedTotal is the number of pods that BenchmarkCompression stores, unless VARIED_PODS overrides it. variedReplicas
// is the number of pods of each workload.
const (
	variedTotal    = 100_000
	variedReplicas = 50
)

// BenchmarkCompression stores realistic pods (variedPods) with and without compression. Cold lists all pods into a new
// collection. The other benchmarks read the stored pods with Residency None.
func BenchmarkCompression(b *testing.B) {
	total := variedTotal
	if n, err := strconv.Atoi(os.Getenv("VARIED_PODS")); err == nil {
		total = n
	}
	b.Run("protobuf", func(b *testing.B) { benchCompression(b, mustCodec(b, &corev1.Pod{}), total) })
	b.Run("unstructured", func(b *testing.B) { benchCompression(b, codec.Unstructured(), total) })
}

func benchCompression(b *testing.B, codec codec.Codec, total int) {
	stored := map[string]*store.Collection{}
	for name, compression := range map[string]store.Compression{"plain": store.NoCompression, "zstd": store.Zstd} {
		stored[name] = benchVaried(b, codec, compression)
		b.Run("Cold/"+name, func(b *testing.B) { benchCold(b, stored, name, codec, compression, total) })
	}
	keys, err := stored["plain"].Keys(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	if len(keys) != total {
		return // the flag -bench has not selected Cold, so no pods are stored
	}
	each := func(what string, fn func(b *testing.B, c *store.Collection)) {
		for _, name := range []string{"plain", "zstd"} {
			b.Run(what+"/"+name, func(b *testing.B) {
				b.ReportAllocs()
				begun := cpuTime()
				fn(b, stored[name])
				b.ReportMetric(float64(cpuTime()-begun)/float64(b.N), "cpu-ns/op")
			})
		}
	}
	b.Run("RawGetDecode/plain", func(b *testing.B) { // bbolt alone cannot read compressed records
		b.ReportAllocs()
		benchRaw(b, stored["plain"], codec, keys)
	})
	each("Get", func(b *testing.B, c *store.Collection) {
		for b.Loop() {
			if obj, err := c.Get(context.Background(), keys[rand.IntN(len(keys))]); obj == nil || err != nil {
				b.Fatal(obj, err)
			}
		}
	})
	each("Iterate", func(b *testing.B, c *store.Collection) {
		for b.Loop() {
			n := 0
			if err := c.Iterate(context.Background(), "", func(string, runtime.Object) error { n++; return nil }); n != total ||
				err != nil {
				b.Fatal(n, err)
			}
		}
	})
	for what, q := range map[string]query.Query{
		"SelectLabel": {Labels: labels.SelectorFromSet(labels.Set{"team": "geo"})},
		"SelectField": {Fields: fields.OneTermEqualSelector("status.hostIP", "192.168.1.7")},
	} {
		each(what, func(b *testing.B, c *store.Collection) {
			for b.Loop() {
				if objs, err := c.Select(context.Background(), q); err != nil {
					b.Fatal(len(objs), err)
				}
			}
		})
	}
	each("CommitHot1000", func(b *testing.B, c *store.Collection) { benchCommitHot(b, c, keys) })
}

// benchCold lists all pods into a new collection in each iteration. Afterwards stored has the last collection.
func benchCold(b *testing.B, stored map[string]*store.Collection, name string, codec codec.Codec,
	compression store.Compression, total int) {
	c := stored[name]
	var cpu time.Duration
	for b.Loop() {
		b.StopTimer()
		if info, err := c.Info(context.Background()); err != nil || info.Complete {
			if err := errors.Join(err, c.Close(), store.StoreOf(c).Drop(context.Background(), c.Identity())); err != nil {
				b.Fatal(err)
			}
			c = benchOpenVaried(b, store.StoreOf(c), codec, compression)
			stored[name] = c
		}
		b.StartTimer()
		cpu += benchColdVaried(b, c, codec, total)
	}
	b.ReportMetric(float64(cpu)/float64(b.N), "cpu-ns/op")
	size, free, err := store.StoreOf(c).Size()
	if err != nil {
		b.Fatal(err)
	}
	plain, packed := payloadBytes(b, c)
	b.ReportMetric(float64(size-free)/float64(total), "file-B/object")
	b.ReportMetric(float64(b.N*total)/b.Elapsed().Seconds(), "objects/s")
	b.ReportMetric(float64(plain)/float64(packed), "ratio")
}

func benchVaried(b *testing.B, codec codec.Codec, compression store.Compression) *store.Collection {
	b.Helper()
	s, err := store.Open(b.TempDir()+"/larder.db", store.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.Close() })
	return benchOpenVaried(b, s, codec, compression)
}

func benchOpenVaried(b *testing.B, s *store.Store, codec codec.Codec, compression store.Compression) *store.Collection {
	b.Helper()
	c, err := s.Collection(context.Background(), pods(), store.CollectionOptions{
		Codec: codec, Residency: store.None, Compression: compression,
		Indexers: cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc},
	})
	if err != nil {
		b.Fatal(err)
	}
	return c
}

func benchColdVaried(b *testing.B, c *store.Collection, codec codec.Codec, total int) (cpu time.Duration) {
	b.StopTimer()
	v := newVariedPods(total, variedReplicas)
	b.StartTimer()
	r, err := c.BeginReplace(context.Background(), store.ReplaceOptions{})
	if err != nil {
		b.Fatal(err)
	}
	for {
		b.StopTimer()
		items := v.page(benchPageSize)
		if codec.Name() == "msgpack" {
			for i, item := range items {
				items[i] = benchUnstructured(b, item)
			}
		}
		b.StartTimer()
		if len(items) == 0 {
			break
		}
		begun := cpuTime()
		if _, err := r.Page(context.Background(), items); err != nil {
			b.Fatal(err)
		}
		cpu += cpuTime() - begun
	}
	if _, err := r.Commit(context.Background(), entry.Batch{ResourceVersion: strconv.Itoa(variedRV)}); err != nil {
		b.Fatal(err)
	}
	return cpu
}

func benchUnstructured(b *testing.B, obj runtime.Object) *unstructured.Unstructured {
	b.Helper()
	m, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		b.Fatal(err)
	}
	return &unstructured.Unstructured{Object: m}
}

// benchRaw reads uncompressed records with bbolt alone, and decodes their payloads.
func benchRaw(b *testing.B, c *store.Collection, codec codec.Codec, keys []string) {
	for b.Loop() {
		key := keys[rand.IntN(len(keys))]
		err := viewOf(c, func(bucket *bolt.Bucket) error {
			data := bucket.Bucket(disk.Objects).Get([]byte(key))[disk.RecordFixed:]
			size, n := binary.Uvarint(data)
			_, err := codec.Decode(data[n+int(size):])
			return err
		})
		if err != nil {
			b.Fatal(err)
		}
	}
}

// benchCommitHot updates 1,000 objects that are far apart in key order, and commits them in one transaction.
func benchCommitHot(b *testing.B, c *store.Collection, keys []string) {
	const hot = 1000
	ops := make([]entry.Op, hot)
	for i := range ops {
		obj, err := c.Get(context.Background(), keys[i*len(keys)/hot])
		if err != nil {
			b.Fatal(err)
		}
		ops[i].Object = obj
	}
	rv, written := variedRV, store.StoreOf(c).Written()
	for b.Loop() {
		for i := range ops {
			rv++
			obj := ops[i].Object.(runtime.Object).DeepCopyObject()
			m, err := meta.Accessor(obj)
			if err != nil {
				b.Fatal(err)
			}
			m.SetResourceVersion(strconv.Itoa(rv))
			ops[i].Object = obj
		}
		if _, err := c.Apply(context.Background(), entry.Batch{Ops: ops, ResourceVersion: strconv.Itoa(rv)}); err != nil {
			b.Fatal(err)
		}
		if err := store.StoreOf(c).Flush(context.Background()); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(store.StoreOf(c).Written()-written)/float64(b.N*hot), "written-B/update")
}
