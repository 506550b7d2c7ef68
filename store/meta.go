package store

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"math/bits"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store/internal/boltfile"
	"github.com/larder-dev/larder/store/internal/format"
)

// root has the fields of the root bucket, which describe the file.
type root struct {
	version uint64
	// clean is true if the last process that wrote to the file has closed it.
	clean bool
	times times
}

// begin removes the mark of a clean close. It is called in the first transaction after opening the file for writing.
func (root) begin(tx *bolt.Tx) error {
	return putClean(tx, false)
}

// FormatVersion is the version of the format of the files that this package writes.
const FormatVersion = format.Version

const formatSize = 8 + 4

// writeRoot makes the root bucket of a new file.
func writeRoot(tx *bolt.Tx, now time.Time) error {
	b, err := tx.CreateBucket(format.BucketLarder)
	if err != nil {
		return err
	}
	id := make([]byte, 16)
	_, _ = rand.Read(id) // never fails
	if err := b.Put(format.KeyCreated, []byte(now.UTC().Format(time.RFC3339))); err != nil {
		return err
	}
	if err := b.Put(format.KeyFileID, []byte(hex.EncodeToString(id))); err != nil {
		return err
	}
	if err := putClean(tx, true); err != nil {
		return err
	}
	return putFormat(tx, format.Version)
}

// creating returns the settings with which the store makes files.
func (s *Store) creating(mapped int) boltfile.Creating {
	return boltfile.Creating{
		Write:   func(tx *bolt.Tx) error { return writeRoot(tx, time.Now()) },
		MaxSize: s.o.MaxSize, PageSize: s.o.newPageSize(), Mapped: mapped,
	}
}

// creatingUnbounded returns the settings for the store's first file. Options.MaxSize applies only to later writes.
func (s *Store) creatingUnbounded() boltfile.Creating {
	o := s.creating(0)
	o.MaxSize = 0
	return o
}

// putFormat writes the format version with a checksum, so that a flipped bit is not taken for a newer format.
func putFormat(tx *bolt.Tx, version uint64) error {
	v := binary.BigEndian.AppendUint64(nil, version)
	v = binary.BigEndian.AppendUint32(v, crc32.Checksum(v, crc32.MakeTable(crc32.Castagnoli)))
	return tx.Bucket(format.BucketLarder).Put(format.KeyFormat, v)
}

// readRoot reads the root bucket.
func readRoot(tx *bolt.Tx) (root, error) {
	b := tx.Bucket(format.BucketLarder)
	if b == nil {
		return root{}, ErrForeign
	}
	v := b.Get(format.KeyFormat)
	if len(v) != formatSize || crc32.Checksum(v[:8], crc32.MakeTable(crc32.Castagnoli)) != binary.BigEndian.Uint32(v[8:]) {
		return root{}, fmt.Errorf("its format version is missing or wrong: %w", entry.ErrDamaged)
	}
	return root{version: binary.BigEndian.Uint64(v), clean: b.Get(format.KeyClean) != nil, times: getTimes(b)}, nil
}

// accepting returns the check of a file that is being opened. It stores the file's root in rt, and fails if the format
// is not supported.
func accepting(rt *root) func(tx *bolt.Tx) (clean bool, err error) {
	return func(tx *bolt.Tx) (bool, error) {
		var err error
		if *rt, err = readRoot(tx); err != nil {
			return false, err
		}
		return rt.clean, checkFormat(rt.version)
	}
}

// LeastMaxSize is the smallest Options.MaxSize that takes effect. A new file has a few pages and grows by 4 MiB at a
// time.
const LeastMaxSize = boltfile.AllocSize + 1<<20

// rootPageIsOurs reports whether page is the root page of a store, perhaps with
// a flipped bit, and not of a bbolt file of another program: it contains the
// name of the root bucket with at most two bits changed.
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

// putClean sets or removes the mark of a clean close.
func putClean(tx *bolt.Tx, clean bool) error {
	b := tx.Bucket(format.BucketLarder)
	if clean {
		return b.Put(format.KeyClean, []byte{1})
	}
	return b.Delete(format.KeyClean)
}

// checkFormat returns an error unless version is format.Version.
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
