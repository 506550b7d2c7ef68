package store

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/printable"
)

// tombstone is what the feed keeps of an object that is gone:
//
//	bytes 0-7   when, by the store's steady time, in seconds since 1970, big endian
//	uvarint     length of the key
//	key
//	record      as in the objects bucket, with the last state, sealed where those are, never compressed; its checksum covers what comes before as its key
//
// An empty encoding says that the last state could not be kept.
type tombstone struct {
	at  time.Time // to a second
	key string
	header
	payload []byte
}

const tombstoneFixed = 8

// append encodes the tombstone; record appends a record of that bucket.
func (t tombstone) append(record func(dst, bucket []byte, key string, h header, payload []byte) []byte) []byte {
	place := t.place()
	return record([]byte(place), bucketTombstones, place, t.header, t.payload)
}

// place is what comes before the record.
func (t tombstone) place() string {
	return string(appendSized(binary.BigEndian.AppendUint64(nil, uint64(max(t.at.Unix(), 0))), t.key))
}

// tombstoneTime returns when the tombstone was put, without a look at the rest.
func tombstoneTime(data []byte) (time.Time, bool) {
	if len(data) < tombstoneFixed {
		return time.Time{}, false
	}
	return time.Unix(int64(binary.BigEndian.Uint64(data)), 0), true
}

// parseTombstone is the reverse of append. The payload is part of data.
func parseTombstone(collection string, seq uint64, data []byte) (t tombstone, err error) {
	at, ok := tombstoneTime(data)
	if !ok {
		return t, fmt.Errorf("tombstone %d of collection %s: %d bytes are too few: %w", seq, collection, len(data), entry.ErrDamaged)
	}
	rest := data[tombstoneFixed:]
	size, n := binary.Uvarint(rest)
	if n <= 0 || size > uint64(len(rest)-n) {
		return t, fmt.Errorf("tombstone %d of collection %s: %w: %w", seq, collection, errHeaderLength, entry.ErrDamaged)
	}
	end := tombstoneFixed + n + int(size)
	t.at, t.key = at, string(rest[n:n+int(size)])
	t.header, t.payload, err = splitRecord(collection, string(data[:end]), data[end:])
	if err == nil && t.Seq != seq {
		err = fmt.Errorf("it says that it is number %d", t.Seq)
	}
	if err != nil {
		return t, fmt.Errorf("tombstone %d of collection %s, of %s: %w: %w", seq, collection, printable.Key(t.key), err, entry.ErrDamaged)
	}
	return t, nil
}

// seqKey is the key of a sequence number.
func seqKey(seq uint64) []byte { return binary.BigEndian.AppendUint64(nil, seq) }

func parseSeqKey(k []byte) (seq uint64, ok bool) {
	if len(k) != 8 {
		return 0, false
	}
	return binary.BigEndian.Uint64(k), true
}
