package store_test

import (
	"bytes"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/larder-dev/larder/store"
)

// BenchmarkOpen opens cleanly closed stores of different sizes. Open verifies a limited number of branch pages, so its
// time must not grow with the size of larger files.
func BenchmarkOpen(b *testing.B) {
	for _, megabytes := range []int{1, 100, 400} {
		b.Run(fmt.Sprintf("%dMB", megabytes), func(b *testing.B) {
			path := filepath.Join(b.TempDir(), "store")
			s, err := store.Open(path, store.Options{Logger: &quiet})
			if err != nil {
				b.Fatal(err)
			}
			value := bytes.Repeat([]byte{1}, 2700)
			for i := range megabytes {
				var keys []string
				for j := range 250 {
					keys = append(keys, fmt.Sprintf("namespace/a-name-as-long-as-that-of-a-pod-%08d", i*250+j))
				}
				if err := put(s, value, keys...); err != nil {
					b.Fatal(err)
				}
			}
			if err := s.Close(); err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				s, err := store.Open(path, store.Options{Logger: &quiet})
				if err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				if err := s.Close(); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
		})
	}
}
