package store_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/sample"
	"github.com/larder-dev/larder/store"
)

// BenchmarkCompact measures Compact for docs/adr/0006. Run it with -benchtime 1x -count 3.
func BenchmarkCompact(b *testing.B) {
	for b.Loop() {
		f := &fileBench{
			path: filepath.Join(b.TempDir(), "store"), pods: 100_000, padding: 1600,
			o: store.AtOnce(store.Options{Logger: &quiet}),
		}
		f.template, _ = sample.Pod(b)
		f.open(b)
		f.fill(b)
		f.compact(b, "full")
		f.writtenPerUpdate(b, "full")
		f.thin(b)
		f.writtenPerUpdate(b, "thinned")
		f.compact(b, "thinned")
		f.writtenPerUpdate(b, "compacted")
		f.close(b)
	}
}

func (f *fileBench) thin(b *testing.B) {
	b.Helper()
	for from := 0; from < f.pods; from += benchPageSize {
		var batch entry.Batch
		for i := from; i < from+benchPageSize; i++ {
			if i%10 != 0 {
				batch.Ops = append(batch.Ops, entry.Op{Type: entry.Delete, Object: f.pod(i)})
			}
		}
		batch.ResourceVersion = strconv.Itoa(f.rv)
		if _, err := f.c.Apply(context.Background(), batch); err != nil {
			b.Fatal(err)
		}
	}
}

func (f *fileBench) compact(b *testing.B, what string) {
	b.Helper()
	began := time.Now()
	done, err := f.s.Compact(context.Background())
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(time.Since(began).Seconds(), what+"-compact-s")
	b.ReportMetric(float64(done.Before)/(1<<20), what+"-before-MiB")
	b.ReportMetric(float64(done.After)/(1<<20), what+"-after-MiB")
}

// writtenPerUpdate commits updates of existing pods, 10 in each batch, and reports the bytes written per update.
func (f *fileBench) writtenPerUpdate(b *testing.B, what string) {
	b.Helper()
	const batches, size = 20, 10
	before := f.s.Written()
	for n := range batches {
		var batch entry.Batch
		for i := range size {
			p := f.pod((n*size + i) * 310 % f.pods / 10 * 10)
			p.Status.Message = fmt.Sprint(n)
			batch.Ops = append(batch.Ops, entry.Op{Object: p})
		}
		batch.ResourceVersion = strconv.Itoa(f.rv)
		if _, err := f.c.Apply(context.Background(), batch); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(f.s.Written()-before)/(batches*size*1024), what+"-KiB/update")
}
