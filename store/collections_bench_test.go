package store

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"
)

// BenchmarkOpenCollections opens 300 collections of a file, as a process with as many informers does when it starts: new ones, those of a run before, and those of a run
// of the day before.
func BenchmarkOpenCollections(b *testing.B) {
	const collections = 300
	codec := mustCodec(b, somePod(0))
	openAll := func(s *Store) {
		for n := range collections {
			id := pods()
			id.Namespace = fmt.Sprintf("ns-%d", n)
			if _, err := s.Collection(b.Context(), id, CollectionOptions{Codec: codec}); err != nil {
				b.Fatal(err)
			}
		}
	}
	open := func(path string) *Store {
		s, err := Open(path, Options{Logger: &quiet})
		if err != nil {
			b.Fatal(err)
		}
		return s
	}
	end := func(s *Store) {
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
	for name, before := range map[string]func(s *Store){
		"new":       nil,
		"again":     func(*Store) {},
		"a day ago": func(s *Store) { setLastUsed(b, s, time.Now().Add(-25*time.Hour)) },
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				s := open(filepath.Join(b.TempDir(), "store"))
				if before != nil {
					openAll(s)
					end(s)
					s = open(s.Path())
					before(s)
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
