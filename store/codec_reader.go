package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

var (
	errTruncated    = errors.New("the data ends too early")
	errTrailing     = errors.New("there is something after the end")
	errUnsorted     = errors.New("the fields of an object are not in order")
	errTooLarge     = errors.New("an integer above the range of int64")
)

// The type bytes of msgpack. The fixed forms hold a number or a length
// in their low bits; an 8 is followed by a 16, a 32 and, for numbers, a 64.
const (
	typeFixMap   = 0x80 // to 0x8f
	typeFixArray = 0x90 // to 0x9f
	typeFixText  = 0xa0 // to 0xbf
	typeNil      = 0xc0
	typeFalse    = 0xc2
	typeTrue     = 0xc3
	typeBin8     = 0xc4
	typeBin32    = 0xc6
	typeExt8     = 0xc7
	typeFloat64  = 0xcb
	typeUint8    = 0xcc
	typeUint64   = 0xcf
	typeInt8     = 0xd0
	typeInt64    = 0xd3
	typeText8    = 0xd9
	typeText32   = 0xdb
	typeArray16  = 0xdc
	typeArray32  = 0xdd
	typeMap16    = 0xde
	typeMap32    = 0xdf
	typeNegative = 0xe0 // to 0xff: -32 to -1
	maxPositive  = 0x7f
	maxFixMap    = typeFixArray - 1 - typeFixMap
	maxFixArray  = typeFixText - 1 - typeFixArray
	maxFixText   = typeNil - 1 - typeFixText
)

// msgpackReader reads msgpack values from data that nobody has vouched for. It
// reads every form that the msgpack format has for the types that are written
// here. The first error stays in err; after it there is no data left, and
// every read returns zero.
//
// It is not the msgpack package, whose decoder takes each byte through an
// io.Reader: decoding is what every read of a collection pays.
type msgpackReader struct {
	data []byte
	pos  int
	// budget is how many more elements arrays and maps may announce: all of
	// them together can not have more than there are bytes. Without it, arrays
	// that nest and each announce what the rest has room for would allocate
	// the square of the data.
	budget int
	err   error
}

func newMsgpackReader(data []byte) msgpackReader {
	return msgpackReader{data: data, budget: len(data)}
}

func (r *msgpackReader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
	r.data, r.pos = nil, 0
}

func (r *msgpackReader) left() int { return len(r.data) - r.pos }

// peek returns the type byte of the next value, or false after the end.
func (r *msgpackReader) peek() (byte, bool) {
	if r.pos >= len(r.data) {
		r.fail(errTruncated)
		return 0, false
	}
	return r.data[r.pos], true
}

func (r *msgpackReader) unexpected(what string) {
	if c, ok := r.peek(); ok {
		r.fail(fmt.Errorf("type byte %#x where %s should be", c, what))
	}
}

// end fails unless everything has been read.
func (r *msgpackReader) end() {
	if r.err == nil && r.left() > 0 {
		r.fail(errTrailing)
	}
}

// number reads a type byte and the big endian number of 1<<log bytes behind it.
func (r *msgpackReader) number(log byte) uint64 {
	size := 1 << log
	if r.left() <= size {
		r.fail(errTruncated)
		return 0
	}
	b := r.data[r.pos+1 : r.pos+1+size]
	r.pos += 1 + size
	switch log {
	case 0:
		return uint64(b[0])
	case 1:
		return uint64(binary.BigEndian.Uint16(b))
	case 2:
		return uint64(binary.BigEndian.Uint32(b))
	}
	return binary.BigEndian.Uint64(b)
}

// cut returns the next n bytes. They are part of the data.
func (r *msgpackReader) cut(n uint64) []byte {
	if n > uint64(r.left()) {
		r.fail(errTruncated)
		return nil
	}
	b := r.data[r.pos : r.pos+int(n)]
	r.pos += int(n)
	return b
}

// bytes returns the bytes of the next string. They are part of the data.
func (r *msgpackReader) bytes() []byte {
	c, ok := r.peek()
	switch {
	case !ok:
		return nil
	case c&^maxFixText == typeFixText:
		r.pos++
		return r.cut(uint64(c & maxFixText))
	case typeText8 <= c && c <= typeText32:
		return r.cut(r.number(c - typeText8))
	}
	r.unexpected("a string")
	return nil
}

// bin is bytes for a bin value.
func (r *msgpackReader) bin() []byte {
	c, ok := r.peek()
	if ok && typeBin8 <= c && c <= typeBin32 {
		return r.cut(r.number(c - typeBin8))
	}
	r.unexpected("a bin")
	return nil
}

func (r *msgpackReader) str() string { return string(r.bytes()) }

// int reads an integer; the caller has peeked at its type byte.
func (r *msgpackReader) int(c byte) int64 {
	switch {
	case c <= maxPositive || c >= typeNegative:
		r.pos++
		return int64(int8(c))
	case c <= typeUint64:
		n := r.number(c - typeUint8)
		if n > math.MaxInt64 {
			r.fail(errTooLarge)
			return 0
		}
		return int64(n)
	case c == typeInt8:
		return int64(int8(r.number(0)))
	case c == typeInt8+1:
		return int64(int16(r.number(1)))
	case c == typeInt8+2:
		return int64(int32(r.number(2)))
	}
	return int64(r.number(3))
}

func (r *msgpackReader) float() float64 { return math.Float64frombits(r.number(3)) }

func (r *msgpackReader) uint() uint64 {
	c, ok := r.peek()
	switch {
	case !ok:
		return 0
	case c <= maxPositive:
		r.pos++
		return uint64(c)
	case typeUint8 <= c && c <= typeUint64:
		return r.number(c - typeUint8)
	}
	r.unexpected("an unsigned integer")
	return 0
}

// arrayLen returns the length of the array that begins here.
func (r *msgpackReader) arrayLen() int {
	c, ok := r.peek()
	switch {
	case !ok:
		return 0
	case c&^maxFixArray == typeFixArray:
		r.pos++
		return r.announced(uint64(c&maxFixArray), 1)
	case c == typeArray16 || c == typeArray32:
		return r.announced(r.number(c-typeArray16+1), 1)
	}
	r.unexpected("an array")
	return 0
}

// mapLen is arrayLen for a map, whose entries are two elements.
func (r *msgpackReader) mapLen() int {
	c, ok := r.peek()
	switch {
	case !ok:
		return 0
	case c&^maxFixMap == typeFixMap:
		r.pos++
		return r.announced(uint64(c&maxFixMap), 2)
	case c == typeMap16 || c == typeMap32:
		return r.announced(r.number(c-typeMap16+1), 2)
	}
	r.unexpected("a map")
	return 0
}

// announced takes n entries of so many elements each off the budget.
func (r *msgpackReader) announced(n uint64, each int) int {
	if n > uint64(r.budget/each) {
		r.fail(errTruncated)
		return 0
	}
	r.budget -= int(n) * each
	return int(n)
}

// ext reads the header of an extension without data and returns its id.
func (r *msgpackReader) ext() byte {
	if r.number(0) != 0 { // the length; its type byte is typeExt8
		r.fail(errors.New("an extension with data"))
		return 0
	}
	id := r.cut(1)
	if len(id) == 0 {
		return 0
	}
	return id[0]
}

// skip passes over n values, and so over whatever is in them. It verifies no more than
// it needs for that.
func (r *msgpackReader) skip(n int) {
	for ; n > 0; n-- {
		c, ok := r.peek()
		switch {
		case !ok:
			return
		case c&^maxFixText == typeFixText, typeText8 <= c && c <= typeText32:
			r.bytes()
		case c&^maxFixMap == typeFixMap, c == typeMap16, c == typeMap32:
			n += 2 * r.mapLen()
		case c&^maxFixArray == typeFixArray, c == typeArray16, c == typeArray32:
			n += r.arrayLen()
		case typeUint8 <= c && c <= typeInt64:
			r.number(c & 3)
		case c <= maxPositive, c >= typeNegative, c == typeNil, c == typeFalse, c == typeTrue:
			r.pos++
		case c == typeFloat64:
			r.float()
		case typeBin8 <= c && c <= typeBin32:
			r.bin()
		case c == typeExt8:
			r.ext()
		default:
			r.unexpected("a value")
		}
	}
}

func isText(c byte) bool { return c&^maxFixText == typeFixText || typeText8 <= c && c <= typeText32 }

func isArray(c byte) bool {
	return c&^maxFixArray == typeFixArray || c == typeArray16 || c == typeArray32
}

// isMap reports whether the next value is a map.
func (r *msgpackReader) isMap() bool {
	c, ok := r.peek()
	return ok && (c&^maxFixMap == typeFixMap || c == typeMap16 || c == typeMap32)
}

// enter goes to the field of that name if the next value is a map that has it.
func (r *msgpackReader) enter(name string) bool {
	if !r.isMap() {
		return false
	}
	for range r.mapLen() {
		k := r.bytes()
		if string(k) == name {
			return r.err == nil
		}
		if r.err != nil || string(k) > name { // they are in order
			return false
		}
		r.skip(1)
	}
	return false
}
