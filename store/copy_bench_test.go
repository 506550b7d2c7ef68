package store_test

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/sample"
	"github.com/larder-dev/larder/store"
)

// BenchmarkCopyPauses copies a file of 100 MB while 1,000 pods a second are updated and others are read. It reports the
// longest Apply and the longest Get, with and without a copy. Run it with -benchtime 1x -count 3.
func BenchmarkCopyPauses(b *testing.B) {
	for b.Loop() {
		f := &fileBench{path: filepath.Join(b.TempDir(), "store"), pods: 30_000, padding: 1600,
			o: store.Options{Logger: &quiet}}
		f.template, _ = sample.Pod(b)
		f.open(b)
		f.fill(b)
		total, _, err := f.s.Size()
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(total)/(1<<20), "MiB")
		f.pauses(b, "alone", func(end time.Time) { time.Sleep(time.Until(end)) })
		copies, took := 0, time.Duration(0)
		f.pauses(b, "copying", func(end time.Time) {
			for time.Now().Before(end) {
				began := time.Now()
				name, err := f.s.CopyFile(context.Background())
				if err != nil {
					b.Error(err)
					return
				}
				took += time.Since(began)
				copies++
				_ = os.Remove(name)
			}
		})
		b.ReportMetric(took.Seconds()/float64(max(1, copies)), "s/copy")
		f.close(b)
	}
}

// pauses updates and reads pods for ten seconds while work runs, and reports the longest Apply and the longest Get.
func (f *fileBench) pauses(b *testing.B, what string, work func(end time.Time)) {
	b.Helper()
	end := time.Now().Add(10 * time.Second)
	var apply, get time.Duration
	updates, reads := 0, 0
	var wg sync.WaitGroup
	wg.Go(func() {
		random, tick := rand.New(rand.NewPCG(1, 2)), time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for began := time.Now(); began.Before(end); began = <-tick.C {
			p := f.pod(random.IntN(f.pods))
			began = time.Now()
			if _, err := f.c.Apply(context.Background(),
				entry.Batch{ResourceVersion: strconv.Itoa(f.rv), Ops: []entry.Op{{Object: p}}}); err != nil {
				b.Error(err)
				return
			}
			apply = max(apply, time.Since(began))
			updates++
		}
	})
	wg.Go(func() {
		random := rand.New(rand.NewPCG(3, 4))
		for time.Now().Before(end) {
			namespace, name := f.key(random.IntN(f.pods))
			began := time.Now()
			if _, err := f.c.Get(context.Background(), namespace+"/"+name); err != nil {
				b.Error(err)
				return
			}
			get = max(get, time.Since(began))
			reads++
			time.Sleep(time.Millisecond)
		}
	})
	work(end)
	wg.Wait()
	b.ReportMetric(float64(apply.Microseconds())/1000, what+"-apply-max-ms")
	b.ReportMetric(float64(get.Microseconds())/1000, what+"-get-max-ms")
	b.ReportMetric(float64(updates)/10, what+"-updates/s")
	b.ReportMetric(float64(reads)/10, what+"-reads/s")
}
