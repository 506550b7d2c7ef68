package store

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/sample"
	"github.com/larder-dev/larder/store/internal/compress"
	"github.com/larder-dev/larder/store/internal/format"
	"github.com/larder-dev/larder/store/seal"
)

// readerOf is one of a store without keys.
func readerOf(collection string) *reader { return &reader{store: &Store{}, name: collection} }

func TestDictionaryIsChecked(t *testing.T) {
	d := compress.New([]byte(strings.Repeat(sample.PodJSON, 2)))
	record := format.AppendRecord(nil, "c", format.DictionaryPlace(d.ID), format.Header{Encoding: "dictionary"}, d.Content)
	got, err := readerOf("c").parseDictionary(d.ID, record)
	if err != nil || got.ID != d.ID || !bytes.Equal(got.Content, d.Content) {
		t.Fatalf("%x, %v", got.ID, err)
	}
	for i := 0; i < len(record)*8; i += 7 {
		record[i/8] ^= 1 << (i % 8)
		if _, err := readerOf("c").parseDictionary(d.ID, record); !errors.Is(err, entry.ErrDamaged) {
			t.Fatalf("bit %d: %v", i, err)
		}
		record[i/8] ^= 1 << (i % 8)
	}
	if _, err := readerOf("other").parseDictionary(d.ID, record); !errors.Is(err, entry.ErrDamaged) {
		t.Errorf("of another collection: %v", err)
	}
}

func FuzzParseDictionary(f *testing.F) {
	d := compress.New([]byte(strings.Repeat(sample.PodJSON, 2)))
	f.Add(format.AppendRecord(nil, "c", format.DictionaryPlace(d.ID), format.Header{}, d.Content), d.ID)
	f.Add(someRecord(format.Header{Dictionary: 1 << 60, Size: 70000}), uint64(1))
	f.Fuzz(func(t *testing.T, data []byte, id uint64) {
		for _, data := range [][]byte{data, resum("c", format.DictionaryPlace(id), data)} {
			got, err := readerOf("c").parseDictionary(id, data)
			if err != nil && !errors.Is(err, entry.ErrDamaged) && !errors.Is(err, seal.ErrSealed) || err == nil &&
				format.DictionaryID(got.Content) != id {
				t.Fatalf("%+v, %v", got, err)
			}
		}
	})
}
