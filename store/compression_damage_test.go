package store_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/storetest/disk"
	"github.com/larder-dev/larder/store"
)

// tamperDictionary replaces the only dictionary in the file by the result of change; nil removes the dictionary.
func tamperDictionary(t *testing.T, c *store.Collection, change func(data []byte) []byte) {
	t.Helper()
	err := tamperWith(c, func(b *bolt.Bucket) error {
		dicts := b.Bucket(disk.Dictionaries)
		k, v := dicts.Cursor().First()
		k, v = bytes.Clone(k), change(bytes.Clone(v))
		if v == nil {
			return dicts.Delete(k)
		}
		return dicts.Put(k, v)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestDictionaryDamage checks that the repair of a file loses the records compressed with a damaged dictionary, and no
// others.
func TestDictionaryDamage(t *testing.T) {
	for what, change := range map[string]func([]byte) []byte{
		"a flipped bit in the content":  func(data []byte) []byte { data[len(data)-7] ^= 1; return data },
		"a flipped bit in the checksum": func(data []byte) []byte { data[2] ^= 1; return data },
		"another content": func([]byte) []byte {
			content := []byte("something else")
			sum := sha256.Sum256(content)
			key := disk.DictionaryKey(binary.BigEndian.Uint64(sum[:]))
			return disk.Record{Version: disk.Plain, Payload: content}.Append(nil, pods().ID(), key)
		},
		"gone": func([]byte) []byte { return nil },
	} {
		for _, again := range []store.Compression{store.Zstd, store.NoCompression} {
			t.Run(what+string(again), func(t *testing.T) { testDictionaryDamage(t, change, again) })
		}
	}
}

func testDictionaryDamage(t *testing.T, change func([]byte) []byte, again store.Compression) {
	path := filepath.Join(t.TempDir(), "store")
	s := mustOpen(t, path, store.Options{})
	c := openCompressed(t, s, store.NoCompression)
	mustList(t, c, 150)
	mustEnd(t, c)
	c = openCompressed(t, s, store.Zstd)
	applyNewer(t, c, 0, 100, 5000)
	tamperDictionary(t, c, change)
	mustClose(t, s)

	s = mustOpen(t, path, store.Options{})
	r, err := s.Check(t.Context())
	if err != nil || len(r.Problems) != 1 || !strings.Contains(r.Problems[0], "dict") {
		t.Errorf("check: %q, %v", r.Problems, err)
	}
	c = openCompressed(t, s, again)
	if obj, err := c.Get(t.Context(), "namespace-0/pod-0120"); obj == nil || err != nil {
		t.Errorf("an object that does not need it: %v, %v", obj, err)
	}
	if _, err := c.Get(t.Context(), "namespace-0/pod-0010"); !errors.Is(err, entry.ErrDamaged) {
		t.Errorf("an object that needs it: %v", err)
	}
	if !errors.Is(s.Err(), entry.ErrDamaged) {
		t.Errorf("Err: %v", s.Err())
	}
	_ = s.Close()
	s = mustOpen(t, path, store.Options{})
	c = openCompressed(t, s, again)
	n, info := count(t, c)
	if n != 50 || info.MustRelist != store.MustRelistDamaged {
		t.Errorf("%d objects are left, %+v", n, info)
	}
	wantSound(t, s)
	mustList(t, c, 150)
	wantPods(t, c, 150, nil)
	wantSound(t, s)
}

func TestCopyKeepsCompressed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store")
	s := mustOpen(t, path, store.Options{})
	c := openCompressed(t, s, store.Zstd)
	mustList(t, c, 200)
	failNow(t, s)
	mustCopyAgain(t, s)
	if total, packed, dicts := compressionOf(t, c); total != 200 || packed != 200 || dicts != 1 {
		t.Errorf("%d of %d, %d dictionaries", packed, total, dicts)
	}
	mustClose(t, s)
	s = mustOpen(t, path, store.Options{})
	wantPods(t, openCompressed(t, s, store.Zstd), 200, nil)
	wantSound(t, s)
}
