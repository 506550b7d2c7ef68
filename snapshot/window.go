package snapshot

import (
	"errors"
	"io"
)

// window reads a stream with as much look-ahead as is asked for. Its buffer grows with what has been read, not with
// what was asked for.
type window struct {
	r   io.Reader
	buf []byte // what was read and not skipped
	// start is where buf begins in mem.
	mem    []byte
	start  int
	offset int64 // of buf in the stream
	err    error
	idle   int // reads in a row that returned nothing
}

const windowSize = 64 << 10

// peek returns the next n bytes, or fewer if the stream ends or fails before: then err says which, io.EOF or the
// stream's error. They are valid until the next call.
func (w *window) peek(n int) ([]byte, error) {
	for len(w.buf) < n && w.err == nil {
		w.fill(n)
	}
	if len(w.buf) >= n {
		return w.buf[:n], nil
	}
	return w.buf, w.err
}

// fill reads once, towards n bytes.
func (w *window) fill(n int) {
	have := len(w.buf)
	if w.start+have == len(w.mem) {
		// No room behind: move to the front, in twice the memory if more than half is in use.
		size := len(w.mem)
		switch {
		case size == 0:
			size = windowSize
		case have > size/2:
			size *= 2
		case size > 8*blockTarget && n < size/4:
			size /= 2 // a large record is past
		}
		mem := w.mem
		if size != len(w.mem) {
			mem = make([]byte, size)
		}
		copy(mem, w.buf)
		w.mem, w.start = mem, 0
	}
	end := w.start + have
	got, err := w.r.Read(w.mem[end:])
	if got < 0 || got > len(w.mem)-end {
		got, err = 0, errors.New("the stream is broken")
	}
	w.buf = w.mem[w.start : end+got]
	if got == 0 && err == nil {
		w.idle++
		if w.idle == 100 {
			err = io.ErrNoProgress
		}
	} else {
		w.idle = 0
	}
	w.err = err
}

// skip drops the next n bytes, which must have been peeked at.
func (w *window) skip(n int) {
	w.start += n
	w.buf = w.buf[n:]
	w.offset += int64(n)
}
