package wire

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

var errMalformed = errors.New("the server sent malformed JSON")

// values splits JSON text into values without parsing them. The caller has to check that each value is valid JSON.
type values struct {
	r   *bufio.Reader
	buf []byte
	at  int
	// err is the error of reading r. It is returned once all bytes of buf are consumed.
	err error
}

func newValues(r *bufio.Reader) *values { return &values{r: r} }

// more reads from r once. It fails after an earlier error, or if more than maxObject bytes are not consumed.
func (v *values) more() error {
	if v.err != nil {
		return v.err
	}
	if v.at > 0 {
		v.buf = v.buf[:copy(v.buf, v.buf[v.at:])]
		v.at = 0
	}
	if len(v.buf) > maxObject {
		return errTooLarge
	}
	n := len(v.buf)
	if cap(v.buf)-n < bufferSize {
		grown := make([]byte, n, 2*cap(v.buf)+bufferSize)
		copy(grown, v.buf)
		v.buf = grown
	}
	read, err := v.r.Read(v.buf[n:cap(v.buf)])
	v.buf, v.err = v.buf[:n+read], err
	return nil
}

func (v *values) peek() (byte, error) {
	for {
		for ; v.at < len(v.buf); v.at++ {
			switch v.buf[v.at] {
			case ' ', '\t', '\r', '\n':
			default:
				return v.buf[v.at], nil
			}
		}
		if err := v.more(); err != nil {
			return 0, err
		}
	}
}

func (v *values) take(c byte) error {
	got, err := v.peek()
	if err != nil {
		return cutOff(err)
	}
	if got != c {
		return errMalformed
	}
	v.at++
	return nil
}

// next consumes and returns the next JSON value. The value is valid until the next call of a method.
func (v *values) next() ([]byte, error) {
	if _, err := v.peek(); err != nil {
		return nil, cutOff(err)
	}
	scan := scanner{}
	for n := 0; ; {
		more := scan.end(v.buf[v.at+n:])
		if more >= 0 {
			value := v.buf[v.at : v.at+n+more]
			if v.at += len(value); len(value) == 0 {
				return nil, errMalformed
			}
			return value, nil
		}
		n = len(v.buf) - v.at
		if err := v.more(); err != nil {
			return nil, cutOff(err) // an answer that ends with a number or a literal was cut off
		}
	}
}

func cutOff(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

type scanner struct {
	depth int
	// bare is true in a number, true, false or null, which ends where another token begins.
	bare      bool
	inString  bool
	isEscaped bool
}

// end returns the length of the value's bytes in part, or -1 if the value continues after part.
func (s *scanner) end(part []byte) int {
	for i := 0; i < len(part); i++ {
		if s.inString {
			if i = s.string(part, i); i < 0 {
				return -1
			}
			if s.depth == 0 {
				return i + 1
			}
			continue
		}
		c := part[i]
		switch c {
		case '"':
			if s.bare {
				return i
			}
			s.inString = true
		case '{', '[':
			if s.bare {
				return i
			}
			s.depth++
		case '}', ']':
			if s.depth == 0 { // the object or array that contains the number or literal ends here
				return i
			}
			if s.depth--; s.depth == 0 {
				return i + 1
			}
		case ',', ':', ' ', '\t', '\r', '\n':
			if s.depth == 0 {
				return i
			}
		default:
			s.bare = s.bare || s.depth == 0
		}
	}
	return -1
}

func (s *scanner) string(part []byte, i int) int {
	if s.isEscaped {
		s.isEscaped = false
		i++
	}
	for {
		quote := bytes.IndexByte(part[i:], '"')
		text := part[i:]
		if quote >= 0 {
			text = text[:quote]
		}
		backslash := bytes.IndexByte(text, '\\')
		switch {
		case backslash >= 0:
			if i += backslash + 2; i > len(part) {
				s.isEscaped = true
				return -1
			}
		case quote >= 0:
			s.inString = false
			return i + quote
		default:
			return -1
		}
	}
}
