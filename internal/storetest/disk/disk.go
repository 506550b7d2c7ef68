// Package disk is what tests know of a store's file: which buckets it has, and what their entries look like. It is
// written from the description of the format and shares no code with package store. So a test that damages a file, or
// looks what has reached it, says where by a name of this package, and a change of the format changes nothing but this
// package.
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

// Files beside a store's own have its path and one of these, the last two with something more.
const (
	SuffixOpening = ".opening"  // there while a process opens the store
	SuffixNew     = ".new-"     // a file that is being made, and what a crash has left of one
	SuffixDamaged = ".damaged-" // a file that was moved aside
)

// Beside returns the files whose names are path and suffix and something more, in order.
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

// Buckets of the file.
var (
	Root      = []byte("larder")    // what follows, and a bucket per collection, named by its id
	Documents = []byte("documents") // name → record
	Dropped   = []byte("dropped")   // number → what is left of a collection that was dropped
)

// Keys in Root.
var (
	Clean = []byte("clean") // there while the file was closed cleanly
	Keys  = []byte("keys")  // a record: the data keys
)

// Buckets and keys of a collection.
var (
	Info         = []byte("info")       // a key; its value is a record; see EditInfo
	Objects      = []byte("objects")    // key → record
	Index        = []byte("index")      // a bucket per index, of entries; see IndexEntry
	Dictionaries = []byte("dict")       // its id, as of SeqKey → record; see DictionaryPlace
	Seq          = []byte("seq")        // SeqKey → key
	Tombstones   = []byte("tombstones") // SeqKey → tombstone; see ParseTombstone
	Cursors      = []byte("handlers")   // name → record
)

// PutFormat changes the version of the format that the file is said to have.
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

// Each calls fn with every entry of a bucket, in order; a nil bucket has none. What fn gets dies with the transaction.
func Each(b *bolt.Bucket, fn func(k, v []byte) error) error {
	if b == nil {
		return nil
	}
	return b.ForEach(fn)
}

// Len is how many entries a bucket has; a nil one has none.
func Len(b *bolt.Bucket) (n int) {
	_ = Each(b, func(_, _ []byte) error { n++; return nil })
	return n
}

// SeqKey is the key of an entry by sequence number.
func SeqKey(seq uint64) []byte { return binary.BigEndian.AppendUint64(nil, seq) }

// ParseSeqKey is the reverse of SeqKey.
func ParseSeqKey(k []byte) uint64 { return binary.BigEndian.Uint64(k) }

// DictionaryPlace is the key that the checksum of a dictionary's record covers.
func DictionaryPlace(id uint64) string { return fmt.Sprintf("%s/%016x", Dictionaries, id) }
