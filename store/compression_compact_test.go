package store_test

import (
	"testing"

	"github.com/larder-dev/larder/store"
)

func TestCompactKeepsDictionaries(t *testing.T) {
	path := t.TempDir() + "/larder.db"
	s := mustOpen(t, path, store.Options{})
	c := openCompressed(t, s, store.Zstd)
	mustList(t, c, 2000)
	if _, packed, dicts := compressionOf(t, c); packed == 0 || dicts == 0 {
		t.Fatalf("%d records are compressed, with %d dictionaries", packed, dicts)
	}
	if _, err := s.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantPods(t, c, 2000, nil)
	wantSound(t, s)
	mustClose(t, s)
	if _, err := store.Compact(t.Context(), path, store.Options{}); err != nil {
		t.Fatal(err)
	}
	s = mustOpen(t, path, store.Options{})
	wantPods(t, openCompressed(t, s, store.NoCompression), 2000, nil)
	wantSound(t, s)
	mustClose(t, s)
}
