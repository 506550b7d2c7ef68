package crypt

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store/internal/format"
	"github.com/larder-dev/larder/store/seal"
)

func sealerOf(t testing.TB, collection string, k *dataKey) *Sealer {
	t.Helper()
	r := &Ring{provider: &seal.Keys{}}
	if err := r.hold([]*dataKey{k}, k); err != nil {
		t.Fatal(err)
	}
	s := r.Sealer(collection)
	if err := s.Begin(true, false, false); err != nil {
		t.Fatal(err)
	}
	return s
}

func resum(collection, key string, data []byte) []byte {
	data = bytes.Clone(data)
	if len(data) >= format.RecordFixed {
		binary.BigEndian.PutUint32(data[1:], format.Sum(collection, key, data))
	}
	return data
}

// TestSealedRecordIsBound checks that a sealed record opens only with its own bucket, collection, key and header.
func TestSealedRecordIsBound(t *testing.T) {
	k := mustDataKey(t, 5)
	s := sealerOf(t, "c", k)
	h := format.Header{UID: "u", RV: "7", Seq: 3, Encoding: "msgpack",
		Terms: s.Store(map[string][]string{"color": {"red"}}), Dictionary: 9, Size: 100}
	data := s.Append(nil, format.BucketObjects, "ns/name", h, []byte("the payload"))
	if bytes.Contains(data, []byte("payload")) || bytes.Contains(data, []byte("red")) {
		t.Error("it is readable")
	}
	again := s.Append(nil, format.BucketObjects, "ns/name", h, []byte("the payload"))
	if bytes.Equal(data[len(data)-60:], again[len(again)-60:]) {
		t.Error("two seals of the same are the same")
	}
	open := func(bucket []byte, collection, key string, data []byte) (string, error) {
		h, payload, err := format.ParseRecord(collection, key, resum(collection, key, slices.Clone(data)))
		if err != nil {
			return "", err
		}
		payload, err = sealerOf(t, collection, k).Payload(bucket, key, h, payload)
		return string(payload), err
	}
	if payload, err := open(format.BucketObjects, "c", "ns/name", data); payload != "the payload" || err != nil {
		t.Fatalf("%q, %v", payload, err)
	}
	for name, at := range map[string]struct {
		bucket          []byte
		collection, key string
	}{"bucket": {format.BucketTombstones, "c", "ns/name"}, "collection": {format.BucketObjects, "d",
		"ns/name"}, "key": {format.BucketObjects, "c", "ns/other"}} {
		if _, err := open(at.bucket, at.collection, at.key, data); !errors.Is(err, entry.ErrDamaged) {
			t.Errorf("in another %s: %v", name, err)
		}
	}
	for i := format.RecordFixed; i < len(data)*8; i++ { // The loop flips each bit, and corrects the checksum.
		if i/8 < format.RecordFixed {
			continue
		}
		bad := slices.Clone(data)
		bad[i/8] ^= 1 << (i % 8)
		if _, err := open(format.BucketObjects, "c", "ns/name", bad); !errors.Is(err, entry.ErrDamaged) {
			t.Errorf("bit %d flipped: %v", i, err)
		}
	}
}

// FuzzOpenSealed checks that opening any input as a sealed record returns the sealed content or damage.
func FuzzOpenSealed(f *testing.F) {
	s := sealerOf(f, "c", mustDataKey(f, 5))
	h := format.Header{UID: "u", Terms: s.Store(map[string][]string{"color": {"red", ""}})}
	f.Add(s.Append(nil, format.BucketObjects, "k", h, []byte("payload")))
	f.Add(s.Append(nil, format.BucketObjects, "k", format.Header{}, nil))
	f.Add(format.AppendRecord(nil, "collection", "ns/name",
		format.Header{UID: "uid", RV: "12", Seq: 7, Encoding: "msgpack", SealedBy: 1 << 61}, []byte("a payload")))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, data := range [][]byte{data, resum("c", "k", data)} {
			h, payload, err := format.ParseRecord("c", "k", data)
			if err != nil || h.SealedBy == 0 {
				continue
			}
			if plain, err := s.Payload(format.BucketObjects, "k", h, payload); err == nil && string(plain) != "payload" &&
				len(plain) > 0 || err != nil && !errors.Is(err, entry.ErrDamaged) {
				t.Fatalf("%q, %v", plain, err)
			}
			if _, err := s.Terms("k", h); err != nil && !errors.Is(err, entry.ErrDamaged) {
				t.Fatal(err)
			}
		}
	})
}
