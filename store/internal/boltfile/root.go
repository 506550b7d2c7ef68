package boltfile

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"math/bits"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store/internal/format"
)

// root holds the fields of the root bucket, which describe the file.
type root struct {
	// clean is true if the last process that wrote to the file closed it cleanly.
	clean bool
	times Times
}

const formatSize = 8 + 4

func writeRoot(tx *bolt.Tx, now time.Time) error {
	b, err := tx.CreateBucket(format.BucketLarder)
	if err != nil {
		return err
	}
	id := make([]byte, 16)
	_, _ = rand.Read(id) // rand.Read never fails
	return errors.Join(
		b.Put(format.KeyCreated, []byte(now.UTC().Format(time.RFC3339))),
		b.Put(format.KeyFileID, []byte(hex.EncodeToString(id))),
		PutClean(tx, true),
		putFormat(tx, format.Version),
	)
}

// putFormat writes the format version with a checksum, so that a flipped bit is not taken for a newer format.
func putFormat(tx *bolt.Tx, version uint64) error {
	v := binary.BigEndian.AppendUint64(nil, version)
	v = binary.BigEndian.AppendUint32(v, crc32.Checksum(v, crc32.MakeTable(crc32.Castagnoli)))
	return tx.Bucket(format.BucketLarder).Put(format.KeyFormat, v)
}

// readRoot reads the root bucket. It fails if this program does not support the format.
func readRoot(tx *bolt.Tx) (root, error) {
	b := tx.Bucket(format.BucketLarder)
	if b == nil {
		return root{}, ErrForeign
	}
	v := b.Get(format.KeyFormat)
	if len(v) != formatSize || crc32.Checksum(v[:8], crc32.MakeTable(crc32.Castagnoli)) != binary.BigEndian.Uint32(v[8:]) {
		return root{}, fmt.Errorf("its format version is missing or wrong: %w", entry.ErrDamaged)
	}
	rt := root{clean: b.Get(format.KeyClean) != nil, times: getTimes(b)}
	return rt, checkFormat(binary.BigEndian.Uint64(v))
}

// rootPageIsOurs reports whether page is the root page of a store, and not of another program's bbolt file. A store's
// root page contains the name of the root bucket, with at most two flipped bits.
func rootPageIsOurs(page []byte) bool {
	for ; len(page) >= len(format.BucketLarder); page = page[1:] {
		differ := 0
		for i, c := range format.BucketLarder {
			differ += bits.OnesCount8(page[i] ^ c)
		}
		if differ <= 2 {
			return true
		}
	}
	return false
}

// PutClean sets or removes the key in the root bucket that says that the file was closed cleanly.
func PutClean(tx *bolt.Tx, clean bool) error {
	b := tx.Bucket(format.BucketLarder)
	if clean {
		return b.Put(format.KeyClean, []byte{1})
	}
	return b.Delete(format.KeyClean)
}

func checkFormat(version uint64) error {
	switch {
	case version == format.Version:
		return nil
	case version > format.Version:
		return fmt.Errorf("%w: the file has format %d, this program reads up to %d; use the newer program, or another file",
			ErrNewerFormat, version, format.Version)
	}
	return fmt.Errorf("the file has format %d, which only drafts of this program wrote, and not %d; use another file",
		version, format.Version)
}
