package msgpack

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// Errors of reading.
var (
	ErrTruncated = errors.New("the data ends too early")
	errTrailing  = errors.New("there is something after the end")
	ErrUnsorted  = errors.New("the fields of an object are not in order")
	errTooLarge  = errors.New("an integer above the range of int64")
)

// Type bytes of msgpack. A fixed form has a small number or a length in the low bits of its type byte. After the type
// byte of an 8-bit form come those of the forms with 16, 32 and, for numbers, 64 bits.
const (
	typeFixMap   = 0x80 // fixed maps: 0x80 to 0x8f, with the length in the low bits
	TypeFixArray = 0x90 // fixed arrays: 0x90 to 0x9f, with the length in the low bits
	TypeFixText  = 0xa0 // fixed strings: 0xa0 to 0xbf, with the length in the low bits
	TypeNil      = 0xc0
	TypeFalse    = 0xc2
	TypeTrue     = 0xc3
	TypeBin8     = 0xc4
	TypeBin32    = 0xc6
	TypeExt8     = 0xc7
	TypeFloat64  = 0xcb
	TypeUint8    = 0xcc
	TypeUint64   = 0xcf
	TypeInt8     = 0xd0
	TypeInt64    = 0xd3
	TypeText8    = 0xd9
	TypeText32   = 0xdb
	TypeArray16  = 0xdc
	TypeArray32  = 0xdd
	TypeMap16    = 0xde
	TypeMap32    = 0xdf
	TypeNegative = 0xe0 // fixed negative numbers: 0xe0 (-32) to 0xff (-1)
	MaxPositive  = 0x7f
	maxFixMap    = TypeFixArray - 1 - typeFixMap
	maxFixArray  = TypeFixText - 1 - TypeFixArray
	maxFixText   = TypeNil - 1 - TypeFixText
)

// Reader reads msgpack values from untrusted data. It reads all msgpack forms of the types that this package writes.
// Err keeps the first error. After an error, no data is left and every read returns zero.
//
// Reader replaces the decoder of the msgpack package, which reads each byte through an io.Reader: every read of a
// collection pays for decoding.
type Reader struct {
	data []byte
	Pos  int
	// budget is the number of elements that further arrays and maps may announce. All arrays and maps together cannot have
	// more elements than there are bytes. Without this limit, nested arrays that each announce as many elements as there
	// are bytes left would allocate the square of the data's size.
	budget int
	Err    error
}

// NewReader returns a reader of data, without copying data.
func NewReader(data []byte) Reader {
	return Reader{data: data, budget: len(data)}
}

// Fail sets Err, unless it is set already. After Fail no data is left to read.
func (r *Reader) Fail(err error) {
	if r.Err == nil {
		r.Err = err
	}
	r.data, r.Pos = nil, 0
}

func (r *Reader) left() int { return len(r.data) - r.Pos }

// Peek returns the type byte of the next value without reading it; false if no data is left.
func (r *Reader) Peek() (byte, bool) {
	if r.Pos >= len(r.data) {
		r.Fail(ErrTruncated)
		return 0, false
	}
	return r.data[r.Pos], true
}

// Unexpected fails because the next value is not of the wanted type; what names that type.
func (r *Reader) Unexpected(what string) {
	if c, ok := r.Peek(); ok {
		r.Fail(fmt.Errorf("type byte %#x where %s should be", c, what))
	}
}

// End fails unless all data has been read.
func (r *Reader) End() {
	if r.Err == nil && r.left() > 0 {
		r.Fail(errTrailing)
	}
}

func (r *Reader) number(log byte) uint64 {
	size := 1 << log
	if r.left() <= size {
		r.Fail(ErrTruncated)
		return 0
	}
	b := r.data[r.Pos+1 : r.Pos+1+size]
	r.Pos += 1 + size
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

func (r *Reader) cut(n uint64) []byte {
	if n > uint64(r.left()) {
		r.Fail(ErrTruncated)
		return nil
	}
	b := r.data[r.Pos : r.Pos+int(n)]
	r.Pos += int(n)
	return b
}

// Bytes returns the bytes of the next string. They share memory with the Reader's data.
func (r *Reader) Bytes() []byte {
	c, ok := r.Peek()
	switch {
	case !ok:
		return nil
	case c&^maxFixText == TypeFixText:
		r.Pos++
		return r.cut(uint64(c & maxFixText))
	case TypeText8 <= c && c <= TypeText32:
		return r.cut(r.number(c - TypeText8))
	}
	r.Unexpected("a string")
	return nil
}

// Bin returns the bytes of the next bin value. They share memory with the Reader's data.
func (r *Reader) Bin() []byte {
	c, ok := r.Peek()
	if ok && IsBin(c) {
		return r.cut(r.number(c - TypeBin8))
	}
	r.Unexpected("a bin")
	return nil
}

// Str returns a copy of the next string.
func (r *Reader) Str() string { return string(r.Bytes()) }

// Int reads an integer. The caller has read its type byte c with Peek.
func (r *Reader) Int(c byte) int64 {
	switch {
	case c <= MaxPositive || c >= TypeNegative:
		r.Pos++
		return int64(int8(c))
	case c <= TypeUint64:
		n := r.number(c - TypeUint8)
		if n > math.MaxInt64 {
			r.Fail(errTooLarge)
			return 0
		}
		return int64(n)
	case c == TypeInt8:
		return int64(int8(r.number(0)))
	case c == TypeInt8+1:
		return int64(int16(r.number(1)))
	case c == TypeInt8+2:
		return int64(int32(r.number(2)))
	}
	return int64(r.number(3))
}

// Float reads a 64-bit float. The caller must have checked its type byte with Peek.
func (r *Reader) Float() float64 { return math.Float64frombits(r.number(3)) }

// Uint reads a non-negative integer.
func (r *Reader) Uint() uint64 {
	c, ok := r.Peek()
	switch {
	case !ok:
		return 0
	case c <= MaxPositive:
		r.Pos++
		return uint64(c)
	case TypeUint8 <= c && c <= TypeUint64:
		return r.number(c - TypeUint8)
	}
	r.Unexpected("an unsigned integer")
	return 0
}

// ArrayLen reads the header of an array and returns its length.
func (r *Reader) ArrayLen() int {
	c, ok := r.Peek()
	switch {
	case !ok:
		return 0
	case c&^maxFixArray == TypeFixArray:
		r.Pos++
		return r.announced(uint64(c&maxFixArray), 1)
	case c == TypeArray16 || c == TypeArray32:
		return r.announced(r.number(c-TypeArray16+1), 1)
	}
	r.Unexpected("an array")
	return 0
}

// MapLen reads the header of a map and returns the number of its entries. Each entry takes two elements of the Reader's
// budget.
func (r *Reader) MapLen() int {
	c, ok := r.Peek()
	switch {
	case !ok:
		return 0
	case c&^maxFixMap == typeFixMap:
		r.Pos++
		return r.announced(uint64(c&maxFixMap), 2)
	case c == TypeMap16 || c == TypeMap32:
		return r.announced(r.number(c-TypeMap16+1), 2)
	}
	r.Unexpected("a map")
	return 0
}

// announced subtracts n entries, with each elements per entry, from the Reader's budget of elements. If the budget is
// too small, it fails and returns 0.
func (r *Reader) announced(n uint64, each int) int {
	if n > uint64(r.budget/each) {
		r.Fail(ErrTruncated)
		return 0
	}
	r.budget -= int(n) * each
	return int(n)
}

// Ext reads an extension that has no data, and returns its type id.
func (r *Reader) Ext() byte {
	if r.number(0) != 0 { // the length byte after TypeExt8 must be 0
		r.Fail(errors.New("an extension with data"))
		return 0
	}
	id := r.cut(1)
	if len(id) == 0 {
		return 0
	}
	return id[0]
}

// Skip skips n values, including nested values. It checks them only as far as it must to find their end.
func (r *Reader) Skip(n int) {
	for ; n > 0; n-- {
		c, ok := r.Peek()
		switch {
		case !ok:
			return
		case IsText(c):
			r.Bytes()
		case c&^maxFixMap == typeFixMap, c == TypeMap16, c == TypeMap32:
			n += 2 * r.MapLen()
		case IsArray(c):
			n += r.ArrayLen()
		case TypeUint8 <= c && c <= TypeInt64:
			r.number(c & 3)
		case c <= MaxPositive, c >= TypeNegative, c == TypeNil, c == TypeFalse, c == TypeTrue:
			r.Pos++
		case c == TypeFloat64:
			r.Float()
		case IsBin(c):
			r.Bin()
		case c == TypeExt8:
			r.Ext()
		default:
			r.Unexpected("a value")
		}
	}
}

// IsText reports whether c is the type byte of a string.
func IsText(c byte) bool { return c&^maxFixText == TypeFixText || TypeText8 <= c && c <= TypeText32 }

// IsBin reports whether c is the type byte of a bin value.
func IsBin(c byte) bool { return TypeBin8 <= c && c <= TypeBin32 }

// IsArray reports whether c is the type byte of an array.
func IsArray(c byte) bool {
	return c&^maxFixArray == TypeFixArray || c == TypeArray16 || c == TypeArray32
}

// IsMap reports whether the next value is a map.
func (r *Reader) IsMap() bool {
	c, ok := r.Peek()
	return ok && (c&^maxFixMap == typeFixMap || c == TypeMap16 || c == TypeMap32)
}

// Enter reads up to the value of the field with this name, and returns true, if the next value is a map that has the
// field.
func (r *Reader) Enter(name string) bool {
	if !r.IsMap() {
		return false
	}
	for range r.MapLen() {
		k := r.Bytes()
		if string(k) == name {
			return r.Err == nil
		}
		if r.Err != nil || string(k) > name { // the name is missing, because the keys of a map are sorted
			return false
		}
		r.Skip(1)
	}
	return false
}

// The Append functions append a value in its shortest msgpack form, with the same bytes as
// github.com/vmihailenco/msgpack/v5. So equal objects have equal bytes, whichever version of Larder wrote them.

// AppendText appends a string.
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

// AppendBin appends a bin value.
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

// AppendUint appends a non-negative integer.
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

// AppendInt appends an integer.
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

// AppendFloat appends a 64-bit float.
func AppendFloat(dst []byte, f float64) []byte {
	return binary.BigEndian.AppendUint64(append(dst, TypeFloat64), math.Float64bits(f))
}

// AppendBool appends true or false.
func AppendBool(dst []byte, b bool) []byte {
	if b {
		return append(dst, TypeTrue)
	}
	return append(dst, TypeFalse)
}

// AppendExt appends an extension without data; id is its type.
func AppendExt(dst []byte, id byte) []byte { return append(dst, TypeExt8, 0, id) }
