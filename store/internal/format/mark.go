package format

import (
	"encoding/binary"
	"time"
)

// Mark is the value in BucketTimes under the sequence number of a change: the time when it was committed. The zero Mark
// means unknown.
//
//	bytes 0-7    the store's steady time, in seconds since 1970, big endian
//	bytes 8-15   the wall clock, likewise
type Mark struct{ Steady, Wall time.Time }

// IsZero reports whether the time is not known.
func (m Mark) IsZero() bool { return m.Wall.IsZero() }

// Append appends the encoded mark to dst.
func (m Mark) Append(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint64(dst, uint64(max(m.Steady.Unix(), 0)))
	return binary.BigEndian.AppendUint64(dst, uint64(max(m.Wall.Unix(), 0)))
}

// ParseMark is the reverse of Mark.Append. It returns the zero Mark if data is not a mark.
func ParseMark(data []byte) (m Mark) {
	if len(data) != 16 {
		return m
	}
	if wall := binary.BigEndian.Uint64(data[8:]); wall > 0 {
		m = Mark{time.Unix(int64(binary.BigEndian.Uint64(data)), 0), time.Unix(int64(wall), 0)}
	}
	return m
}
