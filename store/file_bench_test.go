package store_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/sample"
	"github.com/larder-dev/larder/internal/storetest/disk"
	"github.com/larder-dev/larder/store"
)

type fileBench struct {
	path     string
	o        store.Options
	template *corev1.Pod
	pods     int
	// padding is the difference in bytes between the largest pod and the template. Sizes are evenly distributed.
	padding int
	s       *store.Store
	c       *store.Collection
	rv      int
}

func (f *fileBench) key(i int) (namespace, name string) {
	return fmt.Sprintf("ns%03d", i/100), fmt.Sprintf("web-%06d", i)
}

func (f *fileBench) pod(i int) *corev1.Pod {
	p := f.template.DeepCopy()
	p.Namespace, p.Name = f.key(i)
	f.rv++
	p.UID, p.ResourceVersion = types.UID(fmt.Sprintf("uid-%d", i)), strconv.Itoa(f.rv)
	// The label must sort differently from the key.
	p.Labels = map[string]string{"shuffled": strconv.Itoa(i * 7919 % f.pods)}
	p.Annotations = map[string]string{"padding": strings.Repeat("x", i*104729%(f.padding+1))}
	return p
}

func (f *fileBench) open(b *testing.B) {
	b.Helper()
	var err error
	if f.s, err = store.Open(f.path, f.o); err != nil {
		b.Fatal(err)
	}
	f.c, err = f.s.Collection(context.Background(), pods(), store.CollectionOptions{
		Codec: podCodec(b), Residency: store.None, IndexVersions: map[string]string{"shuffled": "1"},
		Indexers: cache.Indexers{
			cache.NamespaceIndex: cache.MetaNamespaceIndexFunc,
			"shuffled":           func(obj any) ([]string, error) { return []string{obj.(*corev1.Pod).Labels["shuffled"]}, nil },
		},
	})
	if err != nil {
		b.Fatal(err)
	}
}

func (f *fileBench) close(b *testing.B) {
	b.Helper()
	if err := f.s.Close(); err != nil {
		b.Fatal(err)
	}
}

func (f *fileBench) fill(b *testing.B) (took time.Duration) {
	b.Helper()
	ctx := context.Background()
	r, err := f.c.BeginReplace(ctx, store.ReplaceOptions{})
	if err != nil {
		b.Fatal(err)
	}
	for from := 0; from < f.pods; from += benchPageSize {
		items := make([]runtime.Object, benchPageSize)
		for i := range items {
			items[i] = f.pod(from + i)
		}
		began := time.Now()
		if _, err := r.Page(ctx, items); err != nil {
			b.Fatal(err)
		}
		took += time.Since(began)
	}
	if _, err := r.Commit(ctx, entry.Batch{ResourceVersion: strconv.Itoa(f.rv)}); err != nil {
		b.Fatal(err)
	}
	return took
}

// update commits batches of random updates, which set the status to grown. It returns the mean duration of a batch.
func (f *fileBench) update(b *testing.B, batches, size int, grown string) time.Duration {
	b.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	var took time.Duration
	for range batches {
		var batch entry.Batch
		for range size {
			p := f.pod(random.IntN(f.pods))
			p.Status.Message = grown
			batch.Ops = append(batch.Ops, entry.Op{Object: p})
		}
		batch.ResourceVersion = strconv.Itoa(f.rv)
		began := time.Now()
		if _, err := f.c.Apply(context.Background(), batch); err != nil {
			b.Fatal(err)
		}
		took += time.Since(began)
	}
	return took / time.Duration(batches)
}

// raw measures a random Get and a scan of all values with bbolt alone, without decoding.
func (f *fileBench) raw(b *testing.B, gets int) (get, scan time.Duration) {
	b.Helper()
	random := rand.New(rand.NewPCG(3, 4))
	err := store.ViewFile(context.Background(), f.s, func(tx *bolt.Tx) error {
		objects := tx.Bucket(disk.Root).Bucket([]byte(f.c.Identity().ID())).Bucket(disk.Objects)
		sum := byte(0)
		touch := func(v []byte) {
			for at := 0; at < len(v); at += 1024 {
				sum ^= v[at]
			}
		}
		began := time.Now()
		for range gets {
			ns, name := f.key(random.IntN(f.pods))
			v := objects.Get([]byte(ns + "/" + name))
			if v == nil {
				return fmt.Errorf("no pod %s/%s", ns, name)
			}
			touch(v)
		}
		get = time.Since(began) / time.Duration(gets)
		began = time.Now()
		err := objects.ForEach(func(_, v []byte) error { touch(v); return nil })
		scan = time.Since(began)
		b.Logf("%x", sum)
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	return get, scan
}

// BenchmarkFile measures 100,000 pods in files of different page sizes, for docs/adr/0006. Run it with -benchtime 1x
// -count 3. On a busy machine only ratios are meaningful.
func BenchmarkFile(b *testing.B) {
	large, _ := sample.Pod(b)
	large.Annotations, large.Labels = nil, nil
	small := &corev1.Pod{Spec: corev1.PodSpec{NodeName: "some-node"}}
	for _, pods := range []fileBench{
		{template: large, padding: 1600, pods: 100_000}, // pods of 2.7 KB on average
		{template: small, padding: 200, pods: 100_000},  // pods of 300 bytes
	} {
		data, err := podCodec(b).Append(nil, pods.template)
		if err != nil {
			b.Fatal(err)
		}
		for _, pageSize := range []int{4 << 10, 8 << 10, 16 << 10, 32 << 10} {
			b.Run(fmt.Sprintf("pod=%dB/page=%dKiB", len(data)+pods.padding/2, pageSize>>10), func(b *testing.B) {
				for b.Loop() {
					f := pods
					f.path, f.o = filepath.Join(b.TempDir(),
						"store"), store.WithPageSize(store.AtOnce(store.Options{Logger: &quiet}), pageSize)
					f.measure(b)
				}
			})
		}
	}
}

func (f *fileBench) measure(b *testing.B) {
	f.open(b)
	b.ReportMetric(f.fill(b).Seconds(), "cold-s")
	b.ReportMetric(float64(f.s.Written())/(1<<20), "cold-written-MiB")
	f.reportSize(b, "cold")
	get, scan := f.raw(b, 20_000)
	b.ReportMetric(float64(get.Nanoseconds()), "get-ns")
	b.ReportMetric(float64(scan.Nanoseconds())/1e6, "scan-ms")
	f.close(b)
	began := time.Now()
	f.open(b)
	b.ReportMetric(float64(time.Since(began).Nanoseconds())/1e6, "open-ms")

	const batches, size = 50, 100
	for _, grown := range []string{"", fmt.Sprintf("%0300d", 0)} {
		before := f.s.Written()
		took := f.update(b, batches, size, grown)
		kind := "same"
		if grown != "" {
			kind = "grown"
		}
		b.ReportMetric(float64(f.s.Written()-before)/(batches*size*1024), kind+"-KiB/update")
		b.ReportMetric(float64(took.Nanoseconds())/1e6, kind+"-ms/commit")
	}
	f.reportSize(b, "updated")
	f.close(b)
}

func (f *fileBench) reportSize(b *testing.B, when string) {
	b.Helper()
	total, free, err := f.s.Size()
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(total)/(1<<20), when+"-MiB")
	b.ReportMetric(float64(free)/(1<<20), when+"-free-MiB")
}

func podCodec(b *testing.B) codec.Codec {
	b.Helper()
	codec, err := codec.For(&corev1.Pod{})
	if err != nil {
		b.Fatal(err)
	}
	return codec
}
