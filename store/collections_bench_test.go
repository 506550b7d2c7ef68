package store_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/larder-dev/larder/store"
)

// BenchmarkOpenCollections opens 300 collections of a new and of a stored file, as at the start of 300 informers.
func BenchmarkOpenCollections(b *testing.B) {
	const collections = 300
	codec := mustCodec(b, somePod(0))
	openAll := func(s *store.Store) {
		for n := range collections {
			id := pods()
			id.Namespace = fmt.Sprintf("ns-%d", n)
			if _, err := s.Collection(b.Context(), id, store.CollectionOptions{Codec: codec}); err != nil {
				b.Fatal(err)
			}
		}
	}
	open := func(path string) *store.Store {
		s, err := store.Open(path, store.Options{Logger: &quiet})
		if err != nil {
			b.Fatal(err)
		}
		return s
	}
	end := func(s *store.Store) {
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
	for name, again := range map[string]bool{"new": false, "again": true} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				s := open(filepath.Join(b.TempDir(), "store"))
				if again {
					openAll(s)
					end(s)
					s = open(s.Path())
				}
				b.StartTimer()
				openAll(s)
				b.StopTimer()
				end(s)
				b.StartTimer()
			}
		})
	}
}
