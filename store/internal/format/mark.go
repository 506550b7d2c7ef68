package format

import (
	"encoding/binary"
	"time"
)

// Mark is the commit time of a change, in BucketTimes under the change's sequence number. The zero Mark means unknown.
//
//	bytes 0-7    the store's steady time, in seconds since 1970, big endian
//	bytes 8-15   the wall clock, likewise
type Mark struct{ Steady, Wall time.Time }

func (m Mark) IsZero() bool { return m.Wall.IsZero() }

func (m Mark) Append(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint64(dst, uint64(max(m.Steady.Unix(), 0)))
	return binary.BigEndian.AppendUint64(dst, uint64(max(m.Wall.Unix(), 0)))
}

// ParseMark decodes the result of Mark.Append. It returns the zero Mark for other data.
func ParseMark(data []byte) (m Mark) {
	if len(data) != 16 {
		return m
	}
	if wall := binary.BigEndian.Uint64(data[8:]); wall > 0 {
		m = Mark{time.Unix(int64(binary.BigEndian.Uint64(data)), 0), time.Unix(int64(wall), 0)}
	}
	return m
}
