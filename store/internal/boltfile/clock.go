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
// In a new file it starts at the wall clock, and falls behind it later. It is not shown to users.
type clock struct {
	at    time.Time // steady time when the wall clock was since
	since time.Time // wall-clock time of at; has a monotonic reading
}

// awayMost is the maximum time by which the steady clock advances while the store is closed.
const awayMost = 24 * time.Hour

// firstSteady is the earliest steady time of a new file: an earlier wall clock is wrong.
var firstSteady = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)

func (c *clock) now() time.Time { return c.at.Add(time.Since(c.since)) }

// clocks are the wall clock and the steady clock of a File.
type clocks struct {
	wall   func() time.Time
	steady atomic.Pointer[clock] // the steady clock, set by File.Open; nil if the file is open for reading
}

// Wall returns the time of the wall clock.
func (c *clocks) Wall() time.Time { return c.wall() }

// Steady returns the time of the steady clock, which decides when tombstones are dropped. The file must be open for
// writing.
func (c *clocks) Steady() time.Time { return c.steady.Load().now() }

// Times returns the times of the wall clock and the steady clock.
func (c *clocks) Times() Times { return Times{Wall: c.Wall(), Steady: c.Steady()} }

// Times holds the wall clock and the steady clock at one time, as stored in the file. It is zero if the file has no
// stored times.
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

// PutTimes stores the current times of the two clocks.
func (c *clocks) PutTimes(tx *bolt.Tx) error {
	v := binary.BigEndian.AppendUint64(nil, uint64(c.Wall().UnixNano()))
	v = binary.BigEndian.AppendUint64(v, uint64(c.Steady().UnixNano()))
	v = binary.BigEndian.AppendUint32(v, crc32.Checksum(v, crc32.MakeTable(crc32.Castagnoli)))
	return tx.Bucket(format.BucketLarder).Put(format.KeyTimes, v)
}

// getTimes returns the times that PutTimes stored last; zero if there are none or they are damaged.
func getTimes(b *bolt.Bucket) Times {
	v := b.Get(format.KeyTimes)
	if len(v) != timesSize || crc32.Checksum(v[:16],
		crc32.MakeTable(crc32.Castagnoli)) != binary.BigEndian.Uint32(v[16:]) {
		return Times{}
	}
	at := func(v []byte) time.Time { return time.Unix(0, int64(binary.BigEndian.Uint64(v))) }
	return Times{Wall: at(v), Steady: at(v[8:])}
}
