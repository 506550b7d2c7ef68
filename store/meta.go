package store

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"math/bits"
	"time"

	"github.com/larder-dev/larder/entry"
	bolt "go.etcd.io/bbolt"
)

// root is what the root bucket says about the file.
type root struct {
	format uint64
	// clean: the last process that wrote to the file has closed it.
	clean bool
	times times
}

// begin makes the file ours, in the first transaction after opening it.
func (rt root) begin(tx *bolt.Tx) error {
	if err := upgrade(tx, rt.format, upgrades()); err != nil {
		return err
	}
	return putClean(tx, false)
}

// FormatVersion is the version of the format of the files that this package writes.
const FormatVersion = formatVersion

const formatSize = 8 + 4

// writeRoot makes the root bucket of a new file.
func writeRoot(tx *bolt.Tx, now time.Time) error {
	b, err := tx.CreateBucket(bucketLarder)
	if err != nil {
		return err
	}
	id := make([]byte, 16)
	_, _ = rand.Read(id) // never fails
	if err := b.Put(keyCreated, []byte(now.UTC().Format(time.RFC3339))); err != nil {
		return err
	}
	if err := b.Put(keyFileID, []byte(hex.EncodeToString(id))); err != nil {
		return err
	}
	if err := putClean(tx, true); err != nil {
		return err
	}
	return putFormat(tx, formatVersion)
}

// putFormat writes the format with a checksum: a flipped bit must not pass for a newer format.
func putFormat(tx *bolt.Tx, format uint64) error {
	v := binary.BigEndian.AppendUint64(nil, format)
	v = binary.BigEndian.AppendUint32(v, crc32.Checksum(v, crc32.MakeTable(crc32.Castagnoli)))
	return tx.Bucket(bucketLarder).Put(keyFormat, v)
}

// readRoot reads the root bucket.
func readRoot(tx *bolt.Tx) (root, error) {
	b := tx.Bucket(bucketLarder)
	if b == nil {
		return root{}, ErrForeign
	}
	v := b.Get(keyFormat)
	if len(v) != formatSize || crc32.Checksum(v[:8], crc32.MakeTable(crc32.Castagnoli)) != binary.BigEndian.Uint32(v[8:]) {
		return root{}, fmt.Errorf("its format version is missing or wrong: %w", entry.ErrDamaged)
	}
	return root{format: binary.BigEndian.Uint64(v), clean: b.Get(keyClean) != nil, times: getTimes(b)}, nil
}

// rootPageIsOurs tells a store of which a bit in the root page has flipped from
// a bbolt file that some other program made: the name of the root bucket is
// somewhere in the page, but for two bits at most.
func rootPageIsOurs(page []byte) bool {
	for ; len(page) >= len(bucketLarder); page = page[1:] {
		differ := 0
		for i, c := range bucketLarder {
			differ += bits.OnesCount8(page[i] ^ c)
		}
		if differ <= 2 {
			return true
		}
	}
	return false
}

// putClean sets or removes the mark of a clean close.
func putClean(tx *bolt.Tx, clean bool) error {
	b := tx.Bucket(bucketLarder)
	if clean {
		return b.Put(keyClean, []byte{1})
	}
	return b.Delete(keyClean)
}
