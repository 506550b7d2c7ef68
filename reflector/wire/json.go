package wire

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/larder-dev/larder/codec"
	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/base"
)

func listJSON(v *values, sent *codec.Sent) (*List, error) {
	l := &List{}
	items, has := texts{sent: sent, list: l}, false
	var status metav1.Status
	err := v.members(func(name string) error {
		switch name {
		case "apiVersion":
			return v.decode(&l.APIVersion)
		case "kind":
			return v.decode(&l.Kind)
		case "metadata":
			return v.decode(&l.ListMeta)
		case "items":
			has = true
			return v.elements(items.add)
		case "status", "message", "reason", "details", "code": // only a Status has these members
			return v.member(name, &status)
		}
		_, err := v.next()
		return err
	})
	if err == nil {
		err = l.check(status, has)
	}
	if err != nil {
		return nil, err
	}
	return l, items.make()
}

type texts struct {
	sent  *codec.Sent
	list  *List
	all   [][]byte
	size  int
	waits bool
}

const textsSize = 1 << 20

func (t *texts) add(text []byte) error {
	t.all = append(t.all, bytes.Clone(text))
	if t.size += len(text); t.size < textsSize || t.waits && t.list.Kind == "" {
		return nil
	}
	return t.make()
}

// make decodes the collected items and adds them to the list. Items without a kind of their own are kept until the
// list's kind has been read. The items of custom resources precede their list's kind, but have kinds of their own.
func (t *texts) make() error {
	of := itemOf(t.list.TypeMeta)
	made, errs := make([]*entry.Undecoded, len(t.all)), make([]error, len(t.all))
	base.Parallel(len(t.all), t.size, func(i int) { made[i], errs[i] = t.sent.JSON(t.all[i], of) })
	n := 0
	for ; n < len(made); n++ {
		if t.waits = errors.Is(errs[n], codec.ErrNoKind) && t.list.Kind == ""; t.waits {
			break
		}
		if err := t.list.add(made[n], errs[n]); err != nil {
			return err
		}
		t.size -= len(t.all[n])
	}
	t.all = slices.Delete(t.all, 0, n)
	return nil
}

func (l *List) add(u *entry.Undecoded, err error) error {
	if err != nil {
		return opaque(err)
	}
	l.Items = append(l.Items, u)
	return nil
}

// opaque returns err without the errors that it wraps. It is for objects that have arrived as a whole: a decoder's
// io.ErrUnexpectedEOF must not make the answer look as if it broke off.
func opaque(err error) error { return errors.New(err.Error()) }

// itemOf returns the apiVersion and kind of a list's items, derived from the list's as client-go does.
func itemOf(list metav1.TypeMeta) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: list.APIVersion, Kind: strings.TrimSuffix(list.Kind, "List")}
}

// members calls fn with the name of each member of a JSON object. fn has to read the member's value.
func (v *values) members(fn func(name string) error) error {
	if err := v.take('{'); err != nil {
		return err
	}
	return v.each('}', func() error {
		var name string
		if err := v.decode(&name); err != nil {
			return err
		}
		if err := v.take(':'); err != nil {
			return err
		}
		return fn(name)
	})
}

func (v *values) elements(fn func(text []byte) error) error {
	if c, _ := v.peek(); c == 'n' { // after an error c is 0, and the next read returns the same error
		var null *struct{}
		return v.decode(&null)
	}
	if err := v.take('['); err != nil {
		return err
	}
	return v.each(']', func() error {
		text, err := v.next()
		if err != nil {
			return err
		}
		return fn(text)
	})
}

// each calls fn for each comma-separated element, and reads up to and including the byte end.
func (v *values) each(end byte, fn func() error) error {
	for n := 0; ; n++ {
		c, err := v.peek()
		switch {
		case err != nil:
			return cutOff(err)
		case c == end:
			return v.take(end)
		case n > 0:
			if err := v.take(','); err != nil {
				return err
			}
		}
		if err := fn(); err != nil {
			return err
		}
	}
}

func (v *values) decode(to any) error {
	text, err := v.next()
	if err != nil {
		return err
	}
	if err := utiljson.Unmarshal(text, to); err != nil {
		return errMalformed // err may quote the object, which must not be logged
	}
	return nil
}

func (v *values) member(name string, to any) error {
	text, err := v.next()
	if err != nil {
		return err
	}
	if err := utiljson.Unmarshal([]byte(`{"`+name+`":`+string(text)+`}`), to); err != nil {
		return errMalformed
	}
	return nil
}

func eventJSON(v *values, sent *codec.Sent) (watch.Event, error) {
	if _, err := v.peek(); err != nil {
		return watch.Event{}, err
	}
	var ev watch.Event
	var text []byte
	err := v.members(func(name string) error {
		switch name {
		case "type":
			return v.decode((*string)(&ev.Type))
		case "object":
			object, err := v.next()
			text = bytes.Clone(object)
			return err
		}
		_, err := v.next()
		return err
	})
	if err != nil {
		return ev, err
	}
	if ev.Type == watch.Error {
		var status metav1.Status
		if err := utiljson.Unmarshal(text, &status); err != nil {
			return ev, errMalformed
		}
		ev.Object = &status
		return ev, nil
	}
	if text == nil {
		return ev, errNoObject
	}
	u, err := sent.JSON(text, metav1.TypeMeta{})
	return eventOf(ev.Type, u, err)
}

var errNoObject = errors.New("the server sent an event without an object")

// eventOf returns an event of type t with the object u. Only a bookmark's object is decoded, for its annotations.
func eventOf(t watch.EventType, u *entry.Undecoded, err error) (watch.Event, error) {
	if err != nil {
		return watch.Event{}, opaque(err)
	}
	var obj runtime.Object = u
	if t == watch.Bookmark {
		if obj, err = u.Object(); err != nil {
			return watch.Event{}, opaque(err)
		}
	}
	return watch.Event{Type: t, Object: obj}, nil
}

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
