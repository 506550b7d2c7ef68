package store

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	bolt "go.etcd.io/bbolt"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
)

// variedTotal is how many pods, of variedReplicas per workload, BenchmarkCompression stores; VARIED_PODS overrides it.
const (
	variedTotal    = 100_000
	variedReplicas = 50
)

// BenchmarkCompression: pods that differ (see variedPods), stored with and without compression. Cold is one list of all of
// them; what follows reads that file with nothing decoded in memory.
func BenchmarkCompression(b *testing.B) {
	total := variedTotal
	if n, err := strconv.Atoi(os.Getenv("VARIED_PODS")); err == nil {
		total = n
	}
	for name, codec := range map[string]Codec{"protobuf": mustCodec(b, &corev1.Pod{}), "unstructured": UnstructuredCodec()} {
		for _, compression := range []Compression{NoCompression, Zstd} {
			b.Run(fmt.Sprintf("%s/%s", name, map[Compression]string{NoCompression: "plain", Zstd: "zstd"}[compression]), func(b *testing.B) {
				benchCompression(b, codec, compression, total)
			})
		}
	}
}

func benchCompression(b *testing.B, codec Codec, compression Compression, total int) {
	outer := b
	var c *Collection
	b.Run("Cold", func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			c = benchVaried(outer, codec, compression)
			b.StartTimer()
			benchColdVaried(b, c, total)
		}
		size, free, err := c.store.Size()
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(size-free)/float64(total), "file-B/object")
		b.ReportMetric(float64(b.N*total)/b.Elapsed().Seconds(), "objects/s")
		plain, packed := benchPayloads(b, c)
		b.ReportMetric(float64(plain)/float64(packed), "ratio")
	})
	if c == nil {
		return
	}
	keys, err := c.Keys(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	b.Run("RawGetDecode", func(b *testing.B) { benchRaw(b, codec, c, keys) })
	b.Run("Get", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if obj, err := c.Get(context.Background(), keys[rand.IntN(len(keys))]); obj == nil || err != nil {
				b.Fatal(obj, err)
			}
		}
	})
	b.Run("Iterate", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			n := 0
			if err := c.Iterate(context.Background(), "", func(string, runtime.Object) error { n++; return nil }); n != total || err != nil {
				b.Fatal(n, err)
			}
		}
	})
	for what, q := range map[string]Query{
		"SelectLabel": {Labels: labels.SelectorFromSet(labels.Set{"team": "geo"})},
		"SelectField": {Fields: fields.OneTermEqualSelector("status.hostIP", "192.168.1.7")},
	} {
		b.Run(what, func(b *testing.B) {
			for b.Loop() {
				if objs, err := c.Select(context.Background(), q); len(objs) == 0 && total >= variedTotal || err != nil {
					b.Fatal(len(objs), err)
				}
			}
		})
	}
	b.Run("CommitHot1000", func(b *testing.B) { benchCommitHot(b, c, keys) })
}

func benchVaried(b *testing.B, codec Codec, compression Compression) *Collection {
	b.Helper()
	s, err := Open(b.TempDir()+"/larder.db", Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.Close() })
	c, err := s.Collection(context.Background(), pods(), CollectionOptions{
		Codec: codec, Residency: None, Compression: compression, Indexers: cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc},
	})
	if err != nil {
		b.Fatal(err)
	}
	return c
}

func benchColdVaried(b *testing.B, c *Collection, total int) {
	b.StopTimer()
	v := newVariedPods(total, variedReplicas)
	b.StartTimer()
	r, err := c.BeginReplace(context.Background(), ReplaceOptions{})
	if err != nil {
		b.Fatal(err)
	}
	for {
		b.StopTimer()
		items := v.page(benchPageSize)
		if c.codec.Name() == encodingMsgpack {
			for i, item := range items {
				items[i] = benchUnstructured(b, item)
			}
		}
		b.StartTimer()
		if len(items) == 0 {
			break
		}
		if _, err := r.Page(context.Background(), items); err != nil {
			b.Fatal(err)
		}
	}
	if _, err := r.Commit(context.Background(), Batch{ResourceVersion: strconv.Itoa(variedRV)}); err != nil {
		b.Fatal(err)
	}
}

func benchUnstructured(b *testing.B, obj runtime.Object) *unstructured.Unstructured {
	b.Helper()
	m, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		b.Fatal(err)
	}
	return &unstructured.Unstructured{Object: m}
}

// benchPayloads returns how many bytes the codec made of the objects, and how many the records have of them, dictionaries included.
func benchPayloads(b testing.TB, c *Collection) (plain, packed int) {
	b.Helper()
	err := c.view(context.Background(), func(bucket *bolt.Bucket) error {
		if dicts := bucket.Bucket(bucketDictionaries); dicts != nil {
			if err := dicts.ForEach(func(_, v []byte) error { packed += len(v); return nil }); err != nil {
				return err
			}
		}
		return bucket.Bucket(bucketObjects).ForEach(func(k, data []byte) error {
			h, payload, err := parseRecord(c.name, string(k), data)
			plain, packed = plain+h.plainSize(payload), packed+len(payload)
			return err
		})
	})
	if err != nil {
		b.Fatal(err)
	}
	return plain, packed
}

// benchRaw reads records with bbolt alone and decodes what is in them, which is plain only without compression.
func benchRaw(b *testing.B, codec Codec, c *Collection, keys []string) {
	if c.packer != nil {
		b.Skip("what a read is held against is the plain file's")
	}
	for b.Loop() {
		key := keys[rand.IntN(len(keys))]
		err := c.view(context.Background(), func(bucket *bolt.Bucket) error {
			data := bucket.Bucket(bucketObjects).Get([]byte(key))[recordFixed:]
			size, n := binary.Uvarint(data)
			_, err := codec.Decode(data[n+int(size):])
			return err
		})
		if err != nil {
			b.Fatal(err)
		}
	}
}

// benchCommitHot updates 1,000 objects that are far apart, and commits them in one transaction.
func benchCommitHot(b *testing.B, c *Collection, keys []string) {
	const hot = 1000
	ops := make([]Op, hot)
	for i := range ops {
		obj, err := c.Get(context.Background(), keys[i*len(keys)/hot])
		if err != nil {
			b.Fatal(err)
		}
		ops[i].Object = obj
	}
	rv, written := variedRV, c.store.Written()
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
		if _, err := c.Apply(context.Background(), Batch{Ops: ops, ResourceVersion: strconv.Itoa(rv)}); err != nil {
			b.Fatal(err)
		}
		if err := c.store.Flush(context.Background()); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(c.store.Written()-written)/float64(b.N*hot), "written-B/update")
}
