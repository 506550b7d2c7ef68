package store

import (
	"errors"
	"fmt"
	"io"

	"github.com/vmihailenco/msgpack/v5"
	"github.com/vmihailenco/msgpack/v5/msgpcode"
)

var (
	errChecksum     = errors.New("the checksum does not match")
	errHeaderLength = errors.New("the header is longer than the record")
	errTruncated    = errors.New("the data ends too early")
	errTrailing     = errors.New("there is something after the end")
	errUnsorted     = errors.New("the fields of an object are not in order")
)

// byteSink lets a msgpack.Encoder append to a slice. No write fails.
type byteSink struct{ data []byte }

func (s *byteSink) Write(p []byte) (int, error) {
	s.data = append(s.data, p...)
	return len(p), nil
}

func (s *byteSink) WriteByte(c byte) error {
	s.data = append(s.data, c)
	return nil
}

// msgpackReader reads msgpack values from data that nobody has vouched for.
// The type byte is checked before the msgpack package, which takes nil for
// any type, sees it. The first error stays in err; after it every read returns zero.
type msgpackReader struct {
	src byteSource
	dec *msgpack.Decoder
	// budget is how many more elements arrays and maps may announce: all of
	// them together can not have more than there are bytes. Without it, arrays
	// that nest and each announce what the rest has room for would allocate
	// the square of the data.
	budget int
	names  *nameTable
	err    error
}

func newMsgpackReader(data []byte) *msgpackReader {
	r := &msgpackReader{src: byteSource{data: data}, dec: msgpack.GetDecoder(), budget: len(data)}
	r.dec.Reset(&r.src)
	return r
}

// release gives the decoder back; the reader must not be used any more.
func (r *msgpackReader) release() {
	msgpack.PutDecoder(r.dec)
	r.dec = nil
}

func (r *msgpackReader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

// peek returns the type byte of the next value.
func (r *msgpackReader) peek() byte {
	if r.err != nil {
		return 0
	}
	if r.src.left() == 0 {
		r.fail(errTruncated)
		return 0
	}
	return r.src.data[r.src.pos]
}

// bytes returns the bytes of the next string. They are part of the source.
func (r *msgpackReader) bytes() []byte {
	c := r.peek()
	if r.err != nil {
		return nil
	}
	if !msgpcode.IsString(c) {
		r.fail(fmt.Errorf("type byte %#x where a string should be", c))
		return nil
	}
	return r.take()
}

// bin is bytes for a bin value.
func (r *msgpackReader) bin() []byte {
	c := r.peek()
	if r.err != nil {
		return nil
	}
	if !msgpcode.IsBin(c) {
		r.fail(fmt.Errorf("type byte %#x where bytes should be", c))
		return nil
	}
	return r.take()
}

func (r *msgpackReader) take() []byte {
	n, err := r.dec.DecodeBytesLen()
	if err != nil {
		r.fail(truncated(err))
		return nil
	}
	if n < 0 || n > r.src.left() {
		r.fail(errTruncated)
		return nil
	}
	b := r.src.data[r.src.pos : r.src.pos+n]
	r.src.pos += n
	return b
}

func (r *msgpackReader) str() string { return string(r.bytes()) }

// name is str for strings that come again and again.
func (r *msgpackReader) name() string { return r.names.get(r.bytes()) }

// int and float are for those who have peeked at the type byte.
func (r *msgpackReader) int() int64 {
	large := r.peek() == msgpcode.Uint64
	n, err := r.dec.DecodeInt64()
	if err != nil {
		r.fail(truncated(err))
	}
	if large && n < 0 {
		r.fail(errors.New("an integer above the range of int64"))
	}
	return n
}

func (r *msgpackReader) float() float64 {
	f, err := r.dec.DecodeFloat64()
	if err != nil {
		r.fail(truncated(err))
	}
	return f
}

func (r *msgpackReader) uint() uint64 {
	c := r.peek()
	if r.err != nil {
		return 0
	}
	if c > msgpcode.PosFixedNumHigh && (c < msgpcode.Uint8 || c > msgpcode.Uint64) {
		r.fail(fmt.Errorf("type byte %#x where an unsigned integer should be", c))
		return 0
	}
	n, err := r.dec.DecodeUint64()
	if err != nil {
		r.fail(truncated(err))
		return 0
	}
	return n
}

// arrayLen returns the length of the array that begins here.
func (r *msgpackReader) arrayLen() int {
	c := r.peek()
	if r.err != nil {
		return 0
	}
	if !msgpcode.IsFixedArray(c) && c != msgpcode.Array16 && c != msgpcode.Array32 {
		r.fail(fmt.Errorf("type byte %#x where an array should be", c))
		return 0
	}
	n, err := r.dec.DecodeArrayLen()
	return r.checkLen(n, 1, err)
}

// mapLen is arrayLen for a map, whose entries are two elements.
func (r *msgpackReader) mapLen() int {
	c := r.peek()
	if r.err != nil {
		return 0
	}
	if !msgpcode.IsFixedMap(c) && c != msgpcode.Map16 && c != msgpcode.Map32 {
		r.fail(fmt.Errorf("type byte %#x where a map should be", c))
		return 0
	}
	n, err := r.dec.DecodeMapLen()
	return r.checkLen(n, 2, err)
}

func (r *msgpackReader) checkLen(n, each int, err error) int {
	if err != nil {
		r.fail(truncated(err))
		return 0
	}
	if n < 0 || n > r.budget/each {
		r.fail(errTruncated)
		return 0
	}
	r.budget -= n * each
	return n
}

// truncated names the end of the data in our own words.
func truncated(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errTruncated
	}
	return err
}

// byteSource is a bytes.Reader whose position its owner can read and move.
type byteSource struct {
	data []byte
	pos  int
}

func (s *byteSource) left() int { return len(s.data) - s.pos }

func (s *byteSource) Read(p []byte) (int, error) {
	if s.left() == 0 && len(p) > 0 {
		return 0, io.EOF
	}
	n := copy(p, s.data[s.pos:])
	s.pos += n
	return n, nil
}

func (s *byteSource) ReadByte() (byte, error) {
	if s.left() == 0 {
		return 0, io.EOF
	}
	c := s.data[s.pos]
	s.pos++
	return c, nil
}

func (s *byteSource) UnreadByte() error {
	if s.pos == 0 {
		return io.ErrNoProgress
	}
	s.pos--
	return nil
}
