package msgpack

import (
	"encoding/binary"
	"math"
)

// The Append functions append a value in its shortest msgpack form, with the same bytes as
// github.com/vmihailenco/msgpack/v5. So equal objects have equal bytes, whichever version of Larder wrote them.

func AppendText[S string | []byte](dst []byte, s S) []byte {
	switch n := len(s); {
	case n <= maxFixText:
		dst = append(dst, TypeFixText|byte(n))
	case n <= math.MaxUint8:
		dst = append(dst, TypeText8, byte(n))
	default:
		dst = appendLen(dst, TypeText8+1, n)
	}
	return append(dst, s...)
}

func AppendBin(dst, b []byte) []byte {
	if n := len(b); n <= math.MaxUint8 {
		dst = append(dst, TypeBin8, byte(n))
	} else {
		dst = appendLen(dst, TypeBin8+1, n)
	}
	return append(dst, b...)
}

// AppendArrayLen appends the header of an array. The caller appends the n values.
func AppendArrayLen(dst []byte, n int) []byte {
	if n <= maxFixArray {
		return append(dst, TypeFixArray|byte(n))
	}
	return appendLen(dst, TypeArray16, n)
}

// AppendMapLen appends the header of a map. The caller appends the n keys and values.
func AppendMapLen(dst []byte, n int) []byte {
	if n <= maxFixMap {
		return append(dst, typeFixMap|byte(n))
	}
	return appendLen(dst, TypeMap16, n)
}

// appendLen appends a type byte and a length of 16 or 32 bits. type16 is the type byte for 16 bits; type16+1 is the
// type byte for 32 bits.
func appendLen(dst []byte, type16 byte, n int) []byte {
	if n <= math.MaxUint16 {
		return binary.BigEndian.AppendUint16(append(dst, type16), uint16(n))
	}
	return binary.BigEndian.AppendUint32(append(dst, type16+1), uint32(n))
}

func AppendUint(dst []byte, n uint64) []byte {
	switch {
	case n <= MaxPositive:
		return append(dst, byte(n))
	case n <= math.MaxUint8:
		return append(dst, TypeUint8, byte(n))
	case n <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(dst, TypeUint8+1), uint16(n))
	case n <= math.MaxUint32:
		return binary.BigEndian.AppendUint32(append(dst, TypeUint8+2), uint32(n))
	}
	return binary.BigEndian.AppendUint64(append(dst, TypeUint64), n)
}

func AppendInt(dst []byte, n int64) []byte {
	switch {
	case n >= 0:
		return AppendUint(dst, uint64(n))
	case n >= -32:
		return append(dst, byte(n))
	case n >= math.MinInt8:
		return append(dst, TypeInt8, byte(n))
	case n >= math.MinInt16:
		return binary.BigEndian.AppendUint16(append(dst, TypeInt8+1), uint16(n))
	case n >= math.MinInt32:
		return binary.BigEndian.AppendUint32(append(dst, TypeInt8+2), uint32(n))
	}
	return binary.BigEndian.AppendUint64(append(dst, TypeInt64), uint64(n))
}

func AppendFloat(dst []byte, f float64) []byte {
	return binary.BigEndian.AppendUint64(append(dst, TypeFloat64), math.Float64bits(f))
}

func AppendBool(dst []byte, b bool) []byte {
	if b {
		return append(dst, TypeTrue)
	}
	return append(dst, TypeFalse)
}

// AppendExt appends an extension without data; id is its type.
func AppendExt(dst []byte, id byte) []byte { return append(dst, TypeExt8, 0, id) }
