package format

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/base"
	"github.com/larder-dev/larder/store/consumer"
)

// Tombstone is the changelog's entry for a deleted object:
//
//	bytes 0-7   time of the deletion by the store's steady clock, in seconds since 1970, big endian
//	uvarint     length of the key
//	key
//	record      the last state, in the format of the objects bucket: sealed if the collection is sealed, never
//	            compressed; the key that its checksum covers is the bytes before the record
//
// An empty encoding means that the last state could not be kept.
type Tombstone struct {
	At  time.Time // with a precision of one second
	Key string
	Header
	Payload []byte
}

const tombstoneFixed = 8

// Append encodes the tombstone. record must append a record of the given bucket to dst.
func (t Tombstone) Append(record func(dst, bucket []byte, key string, h Header, payload []byte) []byte) []byte {
	key := t.RecordKey()
	return record([]byte(key), BucketTombstones, key, t.Header, t.Payload)
}

// RecordKey returns the bytes before the record, which are also the key that the record's checksum covers.
func (t Tombstone) RecordKey() string {
	return string(AppendSized(binary.BigEndian.AppendUint64(nil, uint64(max(t.At.Unix(), 0))), t.Key))
}

// TombstoneTime returns the time of the tombstone, without parsing the rest.
func TombstoneTime(data []byte) (time.Time, bool) {
	if len(data) < tombstoneFixed {
		return time.Time{}, false
	}
	return time.Unix(int64(binary.BigEndian.Uint64(data)), 0), true
}

// ParseTombstone decodes the result of Tombstone.Append. The payload is part of data.
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
		return t, fmt.Errorf("tombstone %d of collection %s, of %s: %w: %w", seq, collection, base.PrintableKey(t.Key), err,
			entry.ErrDamaged)
	}
	return t, nil
}

// SeqKey returns the bbolt key for a sequence number. The keys sort by number.
func SeqKey(seq uint64) []byte { return binary.BigEndian.AppendUint64(nil, seq) }

// ParseSeqKey is the reverse of SeqKey.
func ParseSeqKey(k []byte) (seq uint64, ok bool) {
	if len(k) != 8 {
		return 0, false
	}
	return binary.BigEndian.Uint64(k), true
}

// cursor is the stored form of a consumer.Position: the payload of a record under the cursor's name.
type cursor struct {
	Seq       uint64               `msgpack:"seq"`
	Failing   map[string]uint64    `msgpack:"failing,omitempty"`
	Replaying bool                 `msgpack:"replaying,omitempty"`
	After     string               `msgpack:"after,omitempty"`
	Notified  bool                 `msgpack:"told,omitempty"`
	Why       consumer.ResetReason `msgpack:"why,omitempty"`
	Types     string               `msgpack:"types,omitempty"`
}

// cursorKey returns the key that the checksum of a cursor covers.
func cursorKey(name string) string { return string(BucketCursors) + "/" + name }

// AppendCursor appends the record of a cursor to dst.
func AppendCursor(dst []byte, collection, name string, at consumer.Position) ([]byte, error) {
	c := cursor(at)
	payload, err := msgpack.Marshal(&c)
	if err != nil {
		return dst, fmt.Errorf("cursor of handler %q: %w", name, err)
	}
	return AppendRecord(dst, collection, cursorKey(name), Header{Encoding: "place"}, payload), nil
}

// ParseCursor is the reverse of AppendCursor. Its errors wrap entry.ErrDamaged.
func ParseCursor(collection, name string, data []byte) (at consumer.Position, err error) {
	_, payload, err := ParseOther(collection, cursorKey(name), data)
	if err != nil {
		return at, err
	}
	var c cursor
	if err := msgpack.Unmarshal(payload, &c); err != nil {
		return at, fmt.Errorf("cursor of handler %q in collection %s: %w: %w", name, collection, err, entry.ErrDamaged)
	}
	return consumer.Position(c), nil
}

// Mark is the commit time of a change, in BucketTimes under the change's sequence number. The zero Mark means unknown.
//
//	bytes 0-7    the store's steady time, in seconds since 1970, big endian
//	bytes 8-15   the wall clock, likewise
type Mark struct{ Steady, Wall time.Time }

// IsZero reports whether the time is not known.
func (m Mark) IsZero() bool { return m.Wall.IsZero() }

// Append appends the encoded mark to dst.
func (m Mark) Append(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint64(dst, uint64(max(m.Steady.Unix(), 0)))
	return binary.BigEndian.AppendUint64(dst, uint64(max(m.Wall.Unix(), 0)))
}

// ParseMark decodes the result of Mark.Append. It returns the zero Mark for other data.
func ParseMark(data []byte) (m Mark) {
	if len(data) != 16 {
		return m
	}
	if wall := binary.BigEndian.Uint64(data[8:]); wall > 0 {
		m = Mark{time.Unix(int64(binary.BigEndian.Uint64(data)), 0), time.Unix(int64(wall), 0)}
	}
	return m
}
