package store

import (
	"encoding/binary"
	"hash/crc32"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/store/internal/format"
)

// steady is the time by which what is in a file grows old: collections that nobody uses, and tombstones. While the
// store is open it goes on with the monotonic clock, which nobody sets; over the time in which it was closed, as far as
// the clock on the wall says how long that was: not back, and by awayMost at most. That clock cannot be trusted with
// what is dropped for good: a device without a battery begins in 1970, or when it was switched off, and a wrong time
// server sets any year. So 30 days are 30 on which the program was there.
//
// It begins with the time on the wall, and falls behind that; nobody is shown it.
type steady struct {
	at    time.Time
	since time.Time // when it was that, by the monotonic clock
}

const awayMost = 24 * time.Hour

// firstSteady is before this was written: no file begins before.
var firstSteady = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)

func (t *steady) now() time.Time { return t.at.Add(time.Since(t.since)) }

// wall is the time that the system believes it is.
func (s *Store) wall() time.Time {
	if h := s.o.Hooks; h != nil && h.Wall != nil {
		return h.Wall()
	}
	return time.Now()
}

// steadyNow is the steady time of the file that s has now.
func (s *Store) steadyNow() time.Time { return s.steady.Load().now() }

func (s *Store) clocks() times { return times{wall: s.wall(), steady: s.steadyNow()} }

// times are the two clocks at one moment, as the file has them; zero if it has none.
type times struct{ wall, steady time.Time }

// resume goes on from where the file was left.
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

// putTimes notes what the clocks show now.
func (s *Store) putTimes(tx *bolt.Tx) error {
	v := binary.BigEndian.AppendUint64(nil, uint64(s.wall().UnixNano()))
	v = binary.BigEndian.AppendUint64(v, uint64(s.steadyNow().UnixNano()))
	v = binary.BigEndian.AppendUint32(v, crc32.Checksum(v, crc32.MakeTable(crc32.Castagnoli)))
	return tx.Bucket(format.BucketLarder).Put(format.KeyTimes, v)
}

// getTimes returns what the last who wrote to the file noted. What is damaged counts as none.
func getTimes(b *bolt.Bucket) times {
	v := b.Get(format.KeyTimes)
	if len(v) != timesSize || crc32.Checksum(v[:16],
		crc32.MakeTable(crc32.Castagnoli)) != binary.BigEndian.Uint32(v[16:]) {
		return times{}
	}
	at := func(v []byte) time.Time { return time.Unix(0, int64(binary.BigEndian.Uint64(v))) }
	return times{wall: at(v), steady: at(v[8:])}
}
