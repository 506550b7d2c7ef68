package format

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/printable"
)

// Tombstone is what the changelog keeps of an object that is gone:
//
//	bytes 0-7   when, by the store's steady time, in seconds since 1970, big endian
//	uvarint     length of the key
//	key
//	record      as in the objects bucket, with the last state, sealed where those are, never compressed; its checksum covers what comes before as its key
//
// An empty encoding says that the last state could not be kept.
type Tombstone struct {
	At  time.Time // to a second
	Key string
	Header
	Payload []byte
}

const tombstoneFixed = 8

// Append encodes the tombstone; record appends a record of that bucket.
func (t Tombstone) Append(record func(dst, bucket []byte, key string, h Header, payload []byte) []byte) []byte {
	place := t.Place()
	return record([]byte(place), BucketTombstones, place, t.Header, t.Payload)
}

// Place is what comes before the record.
func (t Tombstone) Place() string {
	return string(AppendSized(binary.BigEndian.AppendUint64(nil, uint64(max(t.At.Unix(), 0))), t.Key))
}

// TombstoneTime returns when the tombstone was put, without a look at the rest.
func TombstoneTime(data []byte) (time.Time, bool) {
	if len(data) < tombstoneFixed {
		return time.Time{}, false
	}
	return time.Unix(int64(binary.BigEndian.Uint64(data)), 0), true
}

// ParseTombstone is the reverse of Append. The payload is part of data.
func ParseTombstone(collection string, seq uint64, data []byte) (t Tombstone, err error) {
	at, ok := TombstoneTime(data)
	if !ok {
		return t, fmt.Errorf("tombstone %d of collection %s: %d bytes are too few: %w", seq, collection, len(data),
			entry.ErrDamaged)
	}
	rest := data[tombstoneFixed:]
	size, n := binary.Uvarint(rest)
	if n <= 0 || size > uint64(len(rest)-n) {
		return t, fmt.Errorf("tombstone %d of collection %s: %w: %w", seq, collection, errHeaderLength, entry.ErrDamaged)
	}
	end := tombstoneFixed + n + int(size)
	t.At, t.Key = at, string(rest[n:n+int(size)])
	t.Header, t.Payload, err = splitRecord(collection, string(data[:end]), data[end:])
	if err == nil && t.Seq != seq {
		err = fmt.Errorf("it says that it is number %d", t.Seq)
	}
	if err != nil {
		return t, fmt.Errorf("tombstone %d of collection %s, of %s: %w: %w", seq, collection, printable.Key(t.Key), err,
			entry.ErrDamaged)
	}
	return t, nil
}

// SeqKey is the key of a sequence number.
func SeqKey(seq uint64) []byte { return binary.BigEndian.AppendUint64(nil, seq) }

// ParseSeqKey is the reverse of SeqKey.
func ParseSeqKey(k []byte) (seq uint64, ok bool) {
	if len(k) != 8 {
		return 0, false
	}
	return binary.BigEndian.Uint64(k), true
}
