package store_test

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/sample"
	"github.com/larder-dev/larder/store"
)

// BenchmarkDrop drops a collection of 100,000 pods, about 400 MB, with the file in the page cache and without. It
// reports the time of the Drop, the longest commit and read of another collection meanwhile, and the bytes written per
// update. Run it with -benchtime 1x -count 3.
func BenchmarkDrop(b *testing.B) {
	for name, cold := range map[string]bool{"cached": false, "cold": true} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				dropOnce(b, cold)
			}
		})
	}
}

func dropOnce(b *testing.B, cold bool) {
	f := &fileBench{
		path: filepath.Join(b.TempDir(), "store"), pods: 100_000, padding: 1600,
		o: store.AtOnce(store.Options{Logger: &quiet}),
	}
	f.template, _ = sample.Pod(b)
	f.open(b)
	f.fill(b)
	large := f.c
	other := pods()
	other.Namespace = "other"
	var err error
	if f.c, err = f.s.Collection(b.Context(), other,
		store.CollectionOptions{Codec: podCodec(b), Residency: store.None}); err != nil {
		b.Fatal(err)
	}
	update := func() {
		if _, err := f.c.Apply(context.Background(),
			entry.Batch{Ops: []entry.Op{{Object: f.pod(0)}}, ResourceVersion: strconv.Itoa(f.rv)}); err != nil {
			b.Fatal(err)
		}
	}
	perUpdate := func(what string) {
		before := f.s.Written()
		for range 20 {
			update()
		}
		b.ReportMetric(float64(f.s.Written()-before)/(20<<10), what+"-KiB/update")
	}
	perUpdate("full")
	if err := large.Close(); err != nil {
		b.Fatal(err)
	}
	if cold {
		f.close(b)
		uncache(b, f.path)
		if f.s, err = store.Open(f.path, f.o); err != nil {
			b.Fatal(err)
		}
		if f.c, err = f.s.Collection(b.Context(), other,
			store.CollectionOptions{Codec: podCodec(b), Residency: store.None}); err != nil {
			b.Fatal(err)
		}
	}
	written := f.s.Written()
	dropped := make(chan time.Duration)
	begun := time.Now()
	go func() {
		if err := f.s.Drop(context.Background(), pods()); err != nil {
			b.Error(err)
		}
		dropped <- time.Since(begun)
	}()
	commit, read := time.Duration(0), time.Duration(0)
	for done := false; !done; {
		select {
		case took := <-dropped:
			b.ReportMetric(took.Seconds(), "drop-s")
			done = true
		default:
			at := time.Now()
			update()
			updated := time.Now()
			if _, err := f.c.Get(context.Background(), "ns000/web-000000"); err != nil {
				b.Fatal(err)
			}
			commit, read = max(commit, updated.Sub(at)), max(read, time.Since(updated))
			time.Sleep(100 * time.Millisecond) // These updates must not slow down the Drop.
		}
	}
	b.ReportMetric(commit.Seconds(), "longest-commit-s")
	b.ReportMetric(read.Seconds(), "longest-read-s")
	b.ReportMetric(float64(f.s.Written()-written)/(1<<20), "written-MiB")
	perUpdate("dropped")
	f.close(b)
}

func uncache(b *testing.B, path string) {
	b.Helper()
	file, err := os.Open(path)
	if err == nil {
		err = file.Sync()
	}
	if err == nil {
		err = unix.Fadvise(int(file.Fd()), 0, 0, unix.FADV_DONTNEED)
	}
	if err == nil {
		err = file.Close()
	}
	if err != nil {
		b.Fatal(err)
	}
}
