package boltfile

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"math/bits"
	"sync/atomic"
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

// clock is the steady clock, which decides when tombstones are dropped. While the file is open, it follows the
// monotonic clock, and each commit stores it. For the time while the file was closed, it advances by the difference of
// the wall clock, by awayMost at most and never backwards. The wall clock alone must not decide when data is dropped
// for good: a device without a battery starts in 1970, and a wrong time server can set any year. So a week is seven
// days during which the program ran.
//
// In a new file the steady clock starts at the wall clock, and falls behind later. Users never see it.
type clock struct {
	at    time.Time // steady time at the wall-clock time since
	since time.Time // wall-clock time of at, with a monotonic reading
}

const awayMost = 24 * time.Hour

// firstSteady is the earliest steady time of a new file, because an earlier wall clock is wrong.
var firstSteady = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)

func (c *clock) now() time.Time { return c.at.Add(time.Since(c.since)) }

type clocks struct {
	wall   func() time.Time
	steady atomic.Pointer[clock] // set by File.Open; nil in a file that is open for reading
}

func (c *clocks) Wall() time.Time { return c.wall() }

// Steady returns the time of the steady clock. The file must be open for writing.
func (c *clocks) Steady() time.Time { return c.steady.Load().now() }

func (c *clocks) Times() Times { return Times{Wall: c.Wall(), Steady: c.Steady()} }

// Times holds simultaneous times of the wall clock and the steady clock, as stored in the file. Zero means unknown.
type Times struct{ Wall, Steady time.Time }

// resume returns a steady clock that continues from the times stored in the file. wall is the current wall clock.
func (t Times) resume(wall time.Time) *clock {
	at := wall
	if t.Steady.IsZero() {
		if at.Before(firstSteady) {
			at = firstSteady
		}
	} else {
		at = t.Steady.Add(min(max(wall.Round(0).Sub(t.Wall), 0), awayMost))
	}
	return &clock{at: at.Round(0), since: time.Now()}
}

const timesSize = 8 + 8 + 4

func (c *clocks) PutTimes(tx *bolt.Tx) error {
	v := binary.BigEndian.AppendUint64(nil, uint64(c.Wall().UnixNano()))
	v = binary.BigEndian.AppendUint64(v, uint64(c.Steady().UnixNano()))
	v = binary.BigEndian.AppendUint32(v, crc32.Checksum(v, crc32.MakeTable(crc32.Castagnoli)))
	return tx.Bucket(format.BucketLarder).Put(format.KeyTimes, v)
}

// getTimes returns the times that PutTimes stored last, or zero if they are missing or damaged.
func getTimes(b *bolt.Bucket) Times {
	v := b.Get(format.KeyTimes)
	if len(v) != timesSize || crc32.Checksum(v[:16],
		crc32.MakeTable(crc32.Castagnoli)) != binary.BigEndian.Uint32(v[16:]) {
		return Times{}
	}
	at := func(v []byte) time.Time { return time.Unix(0, int64(binary.BigEndian.Uint64(v))) }
	return Times{Wall: at(v), Steady: at(v[8:])}
}
