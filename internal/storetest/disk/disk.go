// Package disk is what tests know of a store's file: which buckets it has, and what their entries look like. It is
// written from the description of the format and shares no code with package store. Tests that damage a file, or verify
// what has reached it, use its names, so that a change of the format changes no test.
package disk

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"

	bolt "go.etcd.io/bbolt"
)

// Suffixes of the files beside a store; see Beside.
const (
	SuffixOpening = ".opening"  // present while a process opens the store
	SuffixNew     = ".new-"     // and a random text: a file that is being made, or that a crash left
	SuffixDamaged = ".damaged-" // and the time: a damaged file that was moved aside
)

// Beside returns the files whose names begin with path and suffix and are longer, in order.
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

// Top-level buckets.
var (
	Root      = []byte("larder")    // the keys below, and a bucket per collection, named by its id
	Documents = []byte("documents") // name → record
	Dropped   = []byte("dropped")   // number → what is left of a collection that was dropped
)

// Keys in Root.
var (
	Clean = []byte("clean") // present if the file was closed cleanly
	Keys  = []byte("keys")  // a record: the data keys
)

// Buckets and keys of a collection.
var (
	Info         = []byte("info")       // a key; its value is a record; see EditInfo
	Objects      = []byte("objects")    // key → record
	Index        = []byte("index")      // a bucket per index, of entries; see IndexEntry
	Dictionaries = []byte("dict")       // SeqKey of the id → record; see DictionaryPlace
	Seq          = []byte("seq")        // SeqKey → object key
	Tombstones   = []byte("tombstones") // SeqKey → tombstone; see ParseTombstone
	Cursors      = []byte("handlers")   // name → record
)

// PutFormat sets the format version that the file claims to have.
func PutFormat(tx *bolt.Tx, version uint64) error {
	v := binary.BigEndian.AppendUint64(nil, version)
	v = binary.BigEndian.AppendUint32(v, crc32.Checksum(v, crc32.MakeTable(crc32.Castagnoli)))
	return tx.Bucket(Root).Put([]byte("format"), v)
}

// Collection returns the bucket of the collection with this id.
func Collection(tx *bolt.Tx, id string) (*bolt.Bucket, error) {
	b := tx.Bucket(Root).Bucket([]byte(id))
	if b == nil {
		return nil, fmt.Errorf("there is no collection %s in the file", id)
	}
	return b, nil
}

// EachCollection calls fn with every collection in the file.
func EachCollection(tx *bolt.Tx, fn func(id string, b *bolt.Bucket) error) error {
	root := tx.Bucket(Root)
	return root.ForEachBucket(func(name []byte) error { return fn(string(name), root.Bucket(name)) })
}

// Each calls fn with every entry of a bucket, in order; a nil bucket has none. k and v die with the transaction.
func Each(b *bolt.Bucket, fn func(k, v []byte) error) error {
	if b == nil {
		return nil
	}
	return b.ForEach(fn)
}

// Len returns the number of entries of a bucket; 0 if it is nil.
func Len(b *bolt.Bucket) (n int) {
	_ = Each(b, func(_, _ []byte) error { n++; return nil })
	return n
}

// SeqKey returns the key for a sequence number.
func SeqKey(seq uint64) []byte { return binary.BigEndian.AppendUint64(nil, seq) }

// ParseSeqKey is the reverse of SeqKey.
func ParseSeqKey(k []byte) uint64 { return binary.BigEndian.Uint64(k) }

// DictionaryPlace is the key that the checksum of a dictionary's record covers.
func DictionaryPlace(id uint64) string { return fmt.Sprintf("%s/%016x", Dictionaries, id) }
