package format

import (
	"encoding/binary"
	"time"
)

// Mark is what the bucket times has at a sequence number: when it was given. The zero Mark says that this is not known.
//
//	bytes 0-7    by the store's steady time, in seconds since 1970, big endian
//	bytes 8-15   by the wall clock
type Mark struct{ Steady, Wall time.Time }

// IsZero reports whether the time is not known.
func (m Mark) IsZero() bool { return m.Wall.IsZero() }

// Append encodes the mark.
func (m Mark) Append(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint64(dst, uint64(max(m.Steady.Unix(), 0)))
	return binary.BigEndian.AppendUint64(dst, uint64(max(m.Wall.Unix(), 0)))
}

// ParseMark is the reverse of Append; zero if data is no mark.
func ParseMark(data []byte) (m Mark) {
	if len(data) != 16 {
		return m
	}
	if wall := binary.BigEndian.Uint64(data[8:]); wall > 0 {
		m = Mark{time.Unix(int64(binary.BigEndian.Uint64(data)), 0), time.Unix(int64(wall), 0)}
	}
	return m
}
