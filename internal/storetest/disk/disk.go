// Package disk reads and changes a store's file for tests: its buckets and the encoding of their entries. The package
// follows the description of the format and shares no code with package store. Tests that damage a file or check its
// contents use this package, so that a change of the format needs no change in them.
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

var (
	Clean = []byte("clean") // this key is present if the file was closed cleanly
	Keys  = []byte("keys")  // this key has a record with the data keys
)

var (
	Info         = []byte("info")       // a key, not a bucket: a record with the collection's Info; see EditInfo
	Objects      = []byte("objects")    // object key → record
	Index        = []byte("index")      // a bucket for each index; its keys are described at IndexEntry
	Dictionaries = []byte("dict")       // SeqKey of the dictionary's id → record; see DictionaryKey
	Seq          = []byte("seq")        // SeqKey of the object's sequence number → object key
	Tombstones   = []byte("tombstones") // SeqKey of the delete's sequence number → tombstone; see ParseTombstone
	Cursors      = []byte("handlers")   // handler name → record with the handler's position
)

func PutFormat(tx *bolt.Tx, version uint64) error {
	v := binary.BigEndian.AppendUint64(nil, version)
	v = binary.BigEndian.AppendUint32(v, crc32.Checksum(v, crc32.MakeTable(crc32.Castagnoli)))
	return tx.Bucket(Root).Put([]byte("format"), v)
}

func Collection(tx *bolt.Tx, id string) (*bolt.Bucket, error) {
	b := tx.Bucket(Root).Bucket([]byte(id))
	if b == nil {
		return nil, fmt.Errorf("there is no collection %s in the file", id)
	}
	return b, nil
}

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

func Len(b *bolt.Bucket) (n int) {
	_ = Each(b, func(_, _ []byte) error { n++; return nil })
	return n
}

func SeqKey(seq uint64) []byte { return binary.BigEndian.AppendUint64(nil, seq) }

func ParseSeqKey(k []byte) uint64 { return binary.BigEndian.Uint64(k) }

// DictionaryKey returns the key for the checksum of a dictionary's record.
func DictionaryKey(id uint64) string { return fmt.Sprintf("%s/%016x", Dictionaries, id) }
