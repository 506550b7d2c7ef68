package boltfile

import (
	"encoding/binary"
	"hash/crc32"
	"sync/atomic"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/store/internal/format"
)

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
