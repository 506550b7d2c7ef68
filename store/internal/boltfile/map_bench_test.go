package boltfile

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store/internal/format"
)

// BenchmarkLongReader measures the longest read for different sizes of bbolt's mapping, while a reader keeps its
// transaction open for three seconds and the file grows from 60 to 160 MB. The results decided the result of mapSize.
func BenchmarkLongReader(b *testing.B) {
	for _, mapped := range []int{0, 128 << 20, 1 << 30, mapSize(60 << 20)} {
		b.Run(fmt.Sprintf("map=%dMiB", mapped>>20), func(b *testing.B) {
			for b.Loop() {
				b.ReportMetric(float64(longReader(b, mapped).Microseconds()), "longest-read-µs")
			}
		})
	}
}

func longReader(b *testing.B, mapped int) (longest time.Duration) {
	b.Helper()
	h, err := createTemporary(filepath.Join(b.TempDir(), "store"), creating{pageSize: 4 << 10, mapped: mapped})
	if err != nil {
		b.Fatal(err)
	}
	h.DB.NoSync = true
	n := 0
	grow := func() error {
		return h.Update(func(tx *bolt.Tx) error {
			n++
			return tx.Bucket(format.BucketLarder).Put(fmt.Appendf(nil, "key-%d", n), make([]byte, 4<<20))
		}, (*bolt.Tx).Commit)
	}
	for range 15 {
		if err := grow(); err != nil {
			b.Fatal(err)
		}
	}
	begun := make(chan struct{})
	held, wrote := make(chan error, 1), make(chan error, 1)
	go func() {
		held <- h.View(func(*bolt.Tx) error {
			close(begun)
			time.Sleep(3 * time.Second)
			return nil
		})
	}()
	<-begun
	go func() {
		var err error
		for i := 0; i < 25 && err == nil; i++ {
			err = grow()
		}
		wrote <- err
	}()
	for done := false; !done; {
		began := time.Now()
		err := h.View(func(tx *bolt.Tx) error {
			if tx.Bucket(format.BucketLarder).Get([]byte("key-1")) == nil {
				return entry.ErrDamaged
			}
			return nil
		})
		longest = max(longest, time.Since(began))
		if err != nil {
			b.Fatal(err)
		}
		select {
		case err := <-wrote:
			if err != nil {
				b.Fatal(err)
			}
			done = true
		default:
		}
	}
	if err := <-held; err != nil {
		b.Fatal(err)
	}
	if err := h.Close(); err != nil {
		b.Fatal(err)
	}
	return longest
}
