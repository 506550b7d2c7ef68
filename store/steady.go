package store

import (
	"encoding/binary"
	"hash/crc32"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/store/internal/format"
)

// steady is the clock that decides when unused collections and tombstones are dropped. While the store is open it
// follows the monotonic clock. For the time in which the store was closed it advances by the difference of the wall
// clock, but never backwards and by awayMost at most. The wall clock alone cannot be trusted with data that is dropped
// for good: a device without a battery starts in 1970, and a wrong time server sets any year. So 30 days are 30 days on
// which the program ran.
//
// steady begins with the wall clock and falls behind it. It is not shown to users.
type steady struct {
	at    time.Time // the steady time at since
	since time.Time // with a monotonic reading
}

// awayMost is the maximum time that counts while the store was closed.
const awayMost = 24 * time.Hour

// firstSteady is the earliest steady time of a new file: an earlier wall clock is wrong.
var firstSteady = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)

func (t *steady) now() time.Time { return t.at.Add(time.Since(t.since)) }

// wall returns the time of the wall clock.
func (s *Store) wall() time.Time {
	if h := s.o.Hooks; h != nil && h.Wall != nil {
		return h.Wall()
	}
	return time.Now()
}

// steadyNow returns the steady time of the store's file.
func (s *Store) steadyNow() time.Time { return s.steady.Load().now() }

func (s *Store) clocks() times { return times{wall: s.wall(), steady: s.steadyNow()} }

// times has the two clocks at one moment, as stored in the file; zero if the file has none.
type times struct{ wall, steady time.Time }

// resume returns the steady clock that goes on from the stored times.
func (t times) resume(wall time.Time) *steady {
	at := wall
	if t.steady.IsZero() {
		if at.Before(firstSteady) {
			at = firstSteady
		}
	} else {
		at = t.steady.Add(min(max(wall.Round(0).Sub(t.wall), 0), awayMost))
	}
	return &steady{at: at.Round(0), since: time.Now()}
}

const timesSize = 8 + 8 + 4

// putTimes stores the present times of the two clocks.
func (s *Store) putTimes(tx *bolt.Tx) error {
	v := binary.BigEndian.AppendUint64(nil, uint64(s.wall().UnixNano()))
	v = binary.BigEndian.AppendUint64(v, uint64(s.steadyNow().UnixNano()))
	v = binary.BigEndian.AppendUint32(v, crc32.Checksum(v, crc32.MakeTable(crc32.Castagnoli)))
	return tx.Bucket(format.BucketLarder).Put(format.KeyTimes, v)
}

// getTimes returns the times that putTimes stored last; zero if there are none or they are damaged.
func getTimes(b *bolt.Bucket) times {
	v := b.Get(format.KeyTimes)
	if len(v) != timesSize || crc32.Checksum(v[:16],
		crc32.MakeTable(crc32.Castagnoli)) != binary.BigEndian.Uint32(v[16:]) {
		return times{}
	}
	at := func(v []byte) time.Time { return time.Unix(0, int64(binary.BigEndian.Uint64(v))) }
	return times{wall: at(v), steady: at(v[8:])}
}
