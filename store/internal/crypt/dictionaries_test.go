package crypt_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/sample"
	"github.com/larder-dev/larder/store/internal/crypt"
	"github.com/larder-dev/larder/store/internal/format"
)

func parse(collection string, id uint64, data []byte) (*crypt.Dictionary, error) {
	return crypt.ParseDictionary(collection, id, data, locked{})
}

type locked struct{}

func (locked) Payload([]byte, string, format.Header, []byte) ([]byte, error) { return nil, errSealed }

var errSealed = errors.New("it is sealed")

func resum(collection, key string, data []byte) []byte {
	data = bytes.Clone(data)
	if len(data) >= format.RecordFixed {
		binary.BigEndian.PutUint32(data[1:], format.Sum(collection, key, data))
	}
	return data
}

func TestDictionaryIsChecked(t *testing.T) {
	d := crypt.NewDictionary([]byte(strings.Repeat(sample.PodJSON, 2)))
	record := format.AppendRecord(nil, "c", format.DictionaryRecordKey(d.ID), format.Header{Encoding: "dictionary"},
		d.Content)
	got, err := parse("c", d.ID, record)
	if err != nil || got.ID != d.ID || !bytes.Equal(got.Content, d.Content) {
		t.Fatalf("%x, %v", got.ID, err)
	}
	for i := 0; i < len(record)*8; i += 7 {
		record[i/8] ^= 1 << (i % 8)
		if _, err := parse("c", d.ID, record); !errors.Is(err, entry.ErrDamaged) {
			t.Fatalf("bit %d: %v", i, err)
		}
		record[i/8] ^= 1 << (i % 8)
	}
	newer := bytes.Clone(record)
	newer[0] = 9
	newer = resum("c", format.DictionaryRecordKey(d.ID), newer)
	if _, err := parse("c", d.ID, newer); !errors.Is(err, entry.ErrIncompatible) || errors.Is(err, entry.ErrDamaged) {
		t.Errorf("of a newer program: %v", err)
	}
	of := format.Header{Encoding: "lz4 dictionary"}
	other := format.AppendRecord(nil, "c", format.DictionaryRecordKey(d.ID), of, []byte("content"))
	if _, err := parse("c", d.ID, other); !errors.Is(err, entry.ErrIncompatible) || errors.Is(err, entry.ErrDamaged) {
		t.Errorf("of another compressor: %v", err)
	}
	if _, err := parse("other", d.ID, record); !errors.Is(err, entry.ErrDamaged) {
		t.Errorf("of another collection: %v", err)
	}
}

func FuzzParseDictionary(f *testing.F) {
	d := crypt.NewDictionary([]byte(strings.Repeat(sample.PodJSON, 2)))
	f.Add(format.AppendRecord(nil, "c", format.DictionaryRecordKey(d.ID), format.Header{}, d.Content), d.ID)
	f.Add(format.AppendRecord(nil, "collection", "ns/name",
		format.Header{UID: "uid", RV: "12", Seq: 7, Encoding: "msgpack", Dictionary: 1 << 60, Size: 70000},
		[]byte("a payload")), uint64(1))
	f.Fuzz(func(t *testing.T, data []byte, id uint64) {
		for _, data := range [][]byte{data, resum("c", format.DictionaryRecordKey(id), data)} {
			got, err := parse("c", id, data)
			refused := errors.Is(err, entry.ErrDamaged) || errors.Is(err, entry.ErrIncompatible) || errors.Is(err, errSealed)
			if err != nil && !refused || err == nil && format.DictionaryID(got.Content) != id {
				t.Fatalf("%+v, %v", got, err)
			}
		}
	})
}
