package store

import (
	"encoding/binary"
	"math"
)

// These append values in the shortest form that msgpack has for them, byte for byte
// what github.com/vmihailenco/msgpack/v5 makes of them: equal objects give equal
// bytes, whichever build of Larder wrote them.

func appendText(dst []byte, s string) []byte {
	switch n := len(s); {
	case n <= maxFixText:
		dst = append(dst, typeFixText|byte(n))
	case n <= math.MaxUint8:
		dst = append(dst, typeText8, byte(n))
	default:
		dst = appendLen(dst, typeText8+1, n)
	}
	return append(dst, s...)
}

func appendBin(dst, b []byte) []byte {
	if n := len(b); n <= math.MaxUint8 {
		dst = append(dst, typeBin8, byte(n))
	} else {
		dst = appendLen(dst, typeBin8+1, n)
	}
	return append(dst, b...)
}

func appendArrayLen(dst []byte, n int) []byte {
	if n <= maxFixArray {
		return append(dst, typeFixArray|byte(n))
	}
	return appendLen(dst, typeArray16, n)
}

func appendMapLen(dst []byte, n int) []byte {
	if n <= maxFixMap {
		return append(dst, typeFixMap|byte(n))
	}
	return appendLen(dst, typeMap16, n)
}

// appendLen appends a length of 16 or 32 bits; type16 is the type byte of the former.
func appendLen(dst []byte, type16 byte, n int) []byte {
	if n <= math.MaxUint16 {
		return binary.BigEndian.AppendUint16(append(dst, type16), uint16(n))
	}
	return binary.BigEndian.AppendUint32(append(dst, type16+1), uint32(n))
}

func appendUint(dst []byte, n uint64) []byte {
	switch {
	case n <= maxPositive:
		return append(dst, byte(n))
	case n <= math.MaxUint8:
		return append(dst, typeUint8, byte(n))
	case n <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(dst, typeUint8+1), uint16(n))
	case n <= math.MaxUint32:
		return binary.BigEndian.AppendUint32(append(dst, typeUint8+2), uint32(n))
	}
	return binary.BigEndian.AppendUint64(append(dst, typeUint64), n)
}

func appendInt(dst []byte, n int64) []byte {
	switch {
	case n >= 0:
		return appendUint(dst, uint64(n))
	case n >= -32:
		return append(dst, byte(n))
	case n >= math.MinInt8:
		return append(dst, typeInt8, byte(n))
	case n >= math.MinInt16:
		return binary.BigEndian.AppendUint16(append(dst, typeInt8+1), uint16(n))
	case n >= math.MinInt32:
		return binary.BigEndian.AppendUint32(append(dst, typeInt8+2), uint32(n))
	}
	return binary.BigEndian.AppendUint64(append(dst, typeInt64), uint64(n))
}

func appendFloat(dst []byte, f float64) []byte {
	return binary.BigEndian.AppendUint64(append(dst, typeFloat64), math.Float64bits(f))
}

func appendBool(dst []byte, b bool) []byte {
	if b {
		return append(dst, typeTrue)
	}
	return append(dst, typeFalse)
}

// appendExt appends an extension that has an id and no data.
func appendExt(dst []byte, id byte) []byte { return append(dst, typeExt8, 0, id) }
