// Package disk reads and changes a store's file for tests: its buckets and the encoding of their entries. The package
// follows the description of the format and shares no code with package store. Tests that damage a file or check its
// contents use this package, so that a change of the format needs no change in them.
package disk

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"

	"github.com/vmihailenco/msgpack/v5"
	bolt "go.etcd.io/bbolt"
)

// Suffixes of the files beside the store. Their names begin with its path.
const (
	SuffixOpening = ".opening"  // a file with this suffix exists while a process opens the store
	SuffixNew     = ".new-"     // random text follows: an unfinished file, possibly left by a crash
	SuffixDamaged = ".damaged-" // a time follows: a damaged file that was moved aside
)

// Beside returns the sorted paths that begin with path and suffix and continue after suffix.
func Beside(path, suffix string) (names []string) {
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return nil
	}
	for _, e := range entries {
		if rest, ok := strings.CutPrefix(e.Name(), filepath.Base(path)+suffix); ok && rest != "" {
			names = append(names, filepath.Join(filepath.Dir(path), e.Name()))
		}
	}
	return names
}

// Top-level buckets of the file.
var (
	Root      = []byte("larder")    // the keys Clean and Keys, and a bucket per collection, named by its id
	Documents = []byte("documents") // document name → record
	Dropped   = []byte("dropped")   // number → bucket with the rest of a dropped collection
)

// Keys in Root.
var (
	Clean = []byte("clean") // this key is present if the file was closed cleanly
	Keys  = []byte("keys")  // this key has a record with the data keys
)

// Names in the bucket of a collection.
var (
	Info         = []byte("info")       // a key, not a bucket: a record with the collection's Info; see EditInfo
	Objects      = []byte("objects")    // object key → record
	Index        = []byte("index")      // a bucket for each index; its keys are described at IndexEntry
	Dictionaries = []byte("dict")       // SeqKey of the dictionary's id → record; see DictionaryKey
	Seq          = []byte("seq")        // SeqKey of the object's sequence number → object key
	Tombstones   = []byte("tombstones") // SeqKey of the delete's sequence number → tombstone; see ParseTombstone
	Cursors      = []byte("handlers")   // handler name → record with the handler's position
)

// PutFormat sets the stored format version.
func PutFormat(tx *bolt.Tx, version uint64) error {
	v := binary.BigEndian.AppendUint64(nil, version)
	v = binary.BigEndian.AppendUint32(v, crc32.Checksum(v, crc32.MakeTable(crc32.Castagnoli)))
	return tx.Bucket(Root).Put([]byte("format"), v)
}

// Collection returns the bucket of the collection with this id in Root.
func Collection(tx *bolt.Tx, id string) (*bolt.Bucket, error) {
	b := tx.Bucket(Root).Bucket([]byte(id))
	if b == nil {
		return nil, fmt.Errorf("there is no collection %s in the file", id)
	}
	return b, nil
}

// EachCollection calls fn with the id and the bucket of every collection in the file.
func EachCollection(tx *bolt.Tx, fn func(id string, b *bolt.Bucket) error) error {
	root := tx.Bucket(Root)
	return root.ForEachBucket(func(name []byte) error { return fn(string(name), root.Bucket(name)) })
}

// Each calls fn with all entries of a bucket, in key order. A nil bucket has no entries. k and v are valid until the
// transaction ends.
func Each(b *bolt.Bucket, fn func(k, v []byte) error) error {
	if b == nil {
		return nil
	}
	return b.ForEach(fn)
}

// Len returns the number of entries of a bucket, and 0 for nil.
func Len(b *bolt.Bucket) (n int) {
	_ = Each(b, func(_, _ []byte) error { n++; return nil })
	return n
}

// SeqKey returns the key for a sequence number.
func SeqKey(seq uint64) []byte { return binary.BigEndian.AppendUint64(nil, seq) }

// ParseSeqKey is the inverse of SeqKey.
func ParseSeqKey(k []byte) uint64 { return binary.BigEndian.Uint64(k) }

// DictionaryKey returns the key for the checksum of a dictionary's record.
func DictionaryKey(id uint64) string { return fmt.Sprintf("%s/%016x", Dictionaries, id) }

// A record begins with the version of its encoding.
const (
	Plain  = 1
	Packed = 2 // the payload is compressed
	Sealed = 3 // the payload is encrypted, optionally compressed before
)

// RecordFixed is the length of a record's version and checksum, at the beginning of the record.
const RecordFixed = 5

// SealOverhead is the number of bytes that sealing adds to a payload.
const SealOverhead = 24 + 16

// Record is a decoded record.
type Record struct {
	Version    byte
	UID, RV    string
	Seq        uint64
	Encoding   string
	Terms      map[string][]string // index values by index name; in a sealed record, their tokens
	Dictionary uint64              // id of the dictionary with which the payload is compressed, or 0
	Size       uint64              // length of the uncompressed payload in bytes
	SealedBy   uint64              // id of the data key that seals the payload, or 0
	Created    uint64              // sequence number at which the object was created; 0 if that is Seq
	Payload    []byte
}

// ParseRecord decodes a record without verifying its checksum. The payload is a copy.
func ParseRecord(data []byte) (r Record, err error) {
	if len(data) < RecordFixed {
		return r, fmt.Errorf("a record of %d bytes", len(data))
	}
	r.Version = data[0]
	size, n := binary.Uvarint(data[RecordFixed:])
	if n <= 0 || size > uint64(len(data)-RecordFixed-n) {
		return r, errors.New("a record with a header that is longer than itself")
	}
	head := data[RecordFixed+n:][:size]
	r.Payload = bytes.Clone(data[RecordFixed+n+int(size):])

	d := msgpack.NewDecoder(bytes.NewReader(head))
	left, err := d.DecodeArrayLen()
	next := func(v any) {
		if err == nil {
			left--
			err = d.Decode(v)
		}
	}
	next(&r.UID)
	next(&r.RV)
	next(&r.Seq)
	next(&r.Encoding)
	next(&r.Terms)
	if r.Version >= Packed {
		next(&r.Dictionary)
		next(&r.Size)
	}
	if r.Version >= Sealed {
		next(&r.SealedBy)
	}
	if left > 0 {
		next(&r.Created)
	}
	if err != nil {
		return r, fmt.Errorf("the header of a record: %w", err)
	}
	return r, nil
}

// PlainSize returns the length of the payload before compression and sealing.
func (r Record) PlainSize() int {
	switch {
	case r.Dictionary != 0:
		return int(r.Size)
	case r.Version == Sealed:
		return len(r.Payload) - SealOverhead
	}
	return len(r.Payload)
}

// Append appends the encoded record to dst, with its checksum for key in the collection.
func (r Record) Append(dst []byte, collection, key string) []byte {
	var head bytes.Buffer
	e := msgpack.NewEncoder(&head)
	e.UseCompactInts(true)
	e.SetSortMapKeys(true)
	fields := []any{r.UID, r.RV, r.Seq, r.Encoding, r.Terms}
	if r.Version >= Packed {
		fields = append(fields, r.Dictionary, r.Size)
	}
	if r.Version >= Sealed {
		fields = append(fields, r.SealedBy)
	}
	if r.Created != 0 {
		fields = append(fields, r.Created)
	}
	if r.Terms == nil {
		fields[4] = map[string][]string{}
	}
	if err := e.Encode(fields); err != nil {
		panic(err) // impossible: the terms are only text and numbers
	}
	data := []byte{r.Version, 0, 0, 0, 0}
	data = binary.AppendUvarint(data, uint64(head.Len()))
	data = append(append(data, head.Bytes()...), r.Payload...)
	return append(dst, Reseal(collection, key, data)...)
}

// Reseal sets the checksum of a record for key in the collection, and returns the record.
func Reseal(collection, key string, data []byte) []byte {
	if len(data) < RecordFixed {
		return data
	}
	var covered []byte
	for _, s := range []string{collection, key} {
		covered = append(binary.AppendUvarint(covered, uint64(len(s))), s...)
	}
	covered = append(append(covered, data[0]), data[RecordFixed:]...)
	binary.BigEndian.PutUint32(data[1:], crc32.Checksum(covered, crc32.MakeTable(crc32.Castagnoli)))
	return data
}

// Flip flips a bit of the record under key in a bucket, so that the record's checksum is wrong.
func Flip(b *bolt.Bucket, key []byte) error {
	data := bytes.Clone(b.Get(key))
	if data == nil {
		return fmt.Errorf("%s is not in the file", key)
	}
	data[len(data)-2] ^= 1
	return b.Put(key, data)
}

// TombstoneFixed is the length of the time at the beginning of a tombstone, before the length of its key.
const TombstoneFixed = 8

// ParseTombstone decodes a tombstone. key is the part of the tombstone before the record r, whose checksum includes
// key.
func ParseTombstone(data []byte) (key string, r Record, err error) {
	if len(data) < TombstoneFixed {
		return "", r, fmt.Errorf("a tombstone of %d bytes", len(data))
	}
	size, n := binary.Uvarint(data[TombstoneFixed:])
	if n <= 0 || size > uint64(len(data)-TombstoneFixed-n) {
		return "", r, errors.New("a tombstone with a key that is longer than itself")
	}
	end := TombstoneFixed + n + int(size)
	r, err = ParseRecord(data[end:])
	return string(data[:end]), r, err
}

// EditInfo edits the stored Info of a collection as a map of its stored field names.
func EditInfo(b *bolt.Bucket, id string, edit func(info map[string]any)) error {
	r, info, err := info(b)
	if err != nil {
		return err
	}
	edit(info)
	if r.Payload, err = msgpack.Marshal(info); err != nil {
		return err
	}
	return b.Put(Info, r.Append(nil, id, string(Info)))
}

// GetInfo returns the stored Info of a collection as a map of its stored field names.
func GetInfo(b *bolt.Bucket) (map[string]any, error) {
	_, m, err := info(b)
	return m, err
}

func info(b *bolt.Bucket) (Record, map[string]any, error) {
	r, err := ParseRecord(b.Get(Info))
	if err != nil {
		return r, nil, err
	}
	d := msgpack.NewDecoder(bytes.NewReader(r.Payload))
	d.UseLooseInterfaceDecoding(true) // decode numbers as int64 or uint64
	m, err := d.DecodeMap()
	return r, m, err
}

// DataKeys returns the ids of the stored data keys.
func DataKeys(tx *bolt.Tx) (ids []uint64, err error) {
	data := tx.Bucket(Root).Get(Keys)
	if data == nil {
		return nil, nil
	}
	r, err := ParseRecord(data)
	if err != nil {
		return nil, err
	}
	var all struct {
		Keys []struct {
			ID uint64 `msgpack:"id"`
		} `msgpack:"keys"`
	}
	err = msgpack.Unmarshal(r.Payload, &all)
	for _, k := range all.Keys {
		ids = append(ids, k.ID)
	}
	return ids, err
}

// IndexEntry returns the key of the index entry for a short value and an object's key.
func IndexEntry(value, key string) []byte {
	escaped := bytes.ReplaceAll([]byte(value), []byte{0}, []byte{0, 0xff})
	return append(append(append([]byte{1}, escaped...), 0, 1), key...)
}

// ParseIndexEntry is the inverse of IndexEntry.
func ParseIndexEntry(k []byte) (value, key string, err error) {
	i := bytes.Index(k, []byte{0, 1})
	if len(k) == 0 || k[0] != 1 || i < 0 {
		return "", "", fmt.Errorf("%x is no entry of a short value", k)
	}
	return string(bytes.ReplaceAll(k[1:i], []byte{0, 0xff}, []byte{0})), string(k[i+2:]), nil
}
