package wire

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/larder-dev/larder/codec"
)

const magic = "k8s\x00"

var errProtobuf = errors.New("the server sent malformed protobuf")

const (
	unknownTypeMeta        = 1
	unknownRaw             = 2
	unknownContentEncoding = 3
	unknownContentType     = 4
	typeMetaAPIVersion     = 1
	typeMetaKind           = 2
	listMetadata           = 1
	listItems              = 2
	eventType              = 1
	eventObject            = 2
	rawExtensionRaw        = 1
)

// message reads the fields of a protobuf message from r. left is the number of unread bytes of the message; negative if
// the message extends to the end of r.
type message struct {
	r       *bufio.Reader
	left    int64
	scratch *[]byte
}

// field reads the next field of the message. For a field of bytes it returns the number and the size, and the caller
// reads or skips the bytes. It skips fields of other types. It returns io.EOF at the end of the message.
func (m *message) field() (number protowire.Number, size int64, err error) {
	for {
		if m.left == 0 {
			return 0, 0, io.EOF
		}
		tag, err := m.varint()
		if err != nil {
			if errors.Is(err, io.EOF) && m.left < 0 {
				return 0, 0, io.EOF
			}
			return 0, 0, cutOff(err)
		}
		number, wire := protowire.DecodeTag(tag)
		if number < protowire.MinValidNumber {
			return 0, 0, errProtobuf
		}
		switch wire {
		case protowire.BytesType:
			n, err := m.varint()
			if err != nil {
				return 0, 0, cutOff(err)
			}
			if n > 1<<62 || m.left >= 0 && int64(n) > m.left {
				return 0, 0, errProtobuf
			}
			return number, int64(n), nil
		case protowire.VarintType:
			_, err = m.varint()
		case protowire.Fixed32Type:
			err = m.skip(4)
		case protowire.Fixed64Type:
			err = m.skip(8)
		default:
			err = errProtobuf
		}
		if err != nil {
			return 0, 0, cutOff(err)
		}
	}
}

func (m *message) varint() (n uint64, err error) {
	for shift := 0; shift < 64; shift += 7 {
		if m.left == 0 {
			return 0, errProtobuf
		}
		b, err := m.r.ReadByte()
		if err != nil {
			if shift > 0 {
				err = cutOff(err)
			}
			return 0, err
		}
		m.left--
		n |= uint64(b&0x7f) << shift
		if b < 0x80 {
			return n, nil
		}
	}
	return 0, errProtobuf
}

func (m *message) skip(n int64) error {
	if m.left >= 0 && n > m.left {
		return errProtobuf
	}
	if _, err := io.CopyN(io.Discard, m.r, n); err != nil {
		return cutOff(err)
	}
	m.left -= n
	return nil
}

// bytes reads n bytes, valid until the next call. A truncated input causes no allocation much larger than itself.
func (m *message) bytes(n int64) ([]byte, error) {
	if n > maxObject {
		return nil, errTooLarge
	}
	b := (*m.scratch)[:0]
	for int64(len(b)) < n {
		part := min(n-int64(len(b)), 1<<20)
		b = append(b, make([]byte, part)...)
		if _, err := io.ReadFull(m.r, b[len(b)-int(part):]); err != nil {
			return nil, cutOff(err)
		}
	}
	*m.scratch = b
	m.left -= n
	return b, nil
}

func listProtobuf(r *bufio.Reader, sent *codec.Sent) (*List, error) {
	l := &List{}
	var head [len(magic)]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	if string(head[:]) != magic {
		return nil, errFormat
	}
	m := &message{r: r, left: -1, scratch: new([]byte)}
	for {
		number, size, err := m.field()
		if errors.Is(err, io.EOF) {
			return l, l.check(metav1.Status{}, strings.HasSuffix(l.Kind, "List"))
		}
		if err != nil {
			return nil, err
		}
		switch number {
		case unknownRaw:
			err = l.raw(m, size, sent)
		case unknownTypeMeta, unknownContentEncoding, unknownContentType:
			var b []byte
			if b, err = m.bytes(size); err == nil {
				err = header(number, b, &l.TypeMeta)
			}
		default:
			err = m.skip(size)
		}
		if err != nil {
			return nil, err
		}
	}
}

func (l *List) raw(outer *message, size int64, sent *codec.Sent) error {
	if l.Kind == "Status" {
		b, err := outer.bytes(size)
		if err != nil {
			return err
		}
		var status metav1.Status
		if err := status.Unmarshal(b); err != nil {
			return errProtobuf
		}
		return l.check(status, false)
	}
	m := &message{r: outer.r, left: size, scratch: outer.scratch}
	of := itemOf(l.TypeMeta)
	for {
		number, size, err := m.field()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		var b []byte
		switch number {
		case listMetadata:
			if b, err = m.bytes(size); err == nil && l.ListMeta.Unmarshal(b) != nil {
				err = errProtobuf
			}
		case listItems:
			if b, err = m.bytes(size); err == nil {
				err = l.add(sent.Protobuf(b, of))
			}
		default:
			err = m.skip(size)
		}
		if err != nil {
			return err
		}
	}
}

// header decodes a field of the runtime.Unknown around an object, such as apiVersion and kind, but not the object.
func header(number protowire.Number, b []byte, of *metav1.TypeMeta) error {
	if number != unknownTypeMeta {
		if len(b) > 0 && (number == unknownContentEncoding || string(b) != runtime.ContentTypeProtobuf) {
			return fmt.Errorf("%w: encoded once more as %q", errFormat, b)
		}
		return nil
	}
	for len(b) > 0 {
		field, wire, n := protowire.ConsumeTag(b)
		if n < 0 || wire != protowire.BytesType {
			return errProtobuf
		}
		value, size := protowire.ConsumeBytes(b[n:])
		if size < 0 {
			return errProtobuf
		}
		switch b = b[n+size:]; field {
		case typeMetaAPIVersion:
			of.APIVersion = string(value)
		case typeMetaKind:
			of.Kind = string(value)
		}
	}
	return nil
}

// check returns an error if l is not a list. If the server sent a Status, that Status is the error. An answer with
// items is a list. An empty list has items in JSON too; its kind proves nothing, since a custom resource may have any
// listKind. Protobuf omits the items of an empty list, so there the kind must end in List, as all of Kubernetes' own
// kinds of lists do.
func (l *List) check(status metav1.Status, items bool) error {
	switch {
	case l.Kind == "Status":
		return apierrors.FromObject(&status)
	case !items:
		return fmt.Errorf("%w, of the kind %q", errNoList, l.Kind)
	}
	return nil
}

func eventProtobuf(r *bufio.Reader, scratch *[]byte, sent *codec.Sent) (watch.Event, error) {
	var length [4]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return watch.Event{}, err
	}
	m := &message{r: r, left: int64(binary.BigEndian.Uint32(length[:])), scratch: scratch}
	frame, err := m.bytes(m.left)
	if err != nil {
		return watch.Event{}, err
	}
	kind, object, err := cutTwo(frame, eventType, eventObject)
	if err != nil {
		return watch.Event{}, err
	}
	raw, _, err := cutTwo(object, rawExtensionRaw, 0)
	if err != nil {
		return watch.Event{}, err
	}
	return eventInside(watch.EventType(kind), raw, sent)
}

// eventInside returns an event of type t. raw is its object, an encoded runtime.Unknown with its magic prefix.
func eventInside(t watch.EventType, raw []byte, sent *codec.Sent) (watch.Event, error) {
	unknown, found := bytes.CutPrefix(raw, []byte(magic))
	if !found {
		return watch.Event{}, errNoObject
	}
	typeMeta, content, err := cutTwo(unknown, unknownTypeMeta, unknownRaw)
	var of metav1.TypeMeta
	if err == nil {
		err = header(unknownTypeMeta, typeMeta, &of)
	}
	if err != nil {
		return watch.Event{}, err
	}
	if t == watch.Error {
		var status metav1.Status
		if err := status.Unmarshal(content); err != nil {
			return watch.Event{}, errProtobuf
		}
		return watch.Event{Type: t, Object: &status}, nil
	}
	u, err := sent.Protobuf(content, of)
	return eventOf(t, u, err)
}

func cutTwo(msg []byte, a, b protowire.Number) (of, and []byte, err error) {
	for len(msg) > 0 {
		number, wire, n := protowire.ConsumeTag(msg)
		if n < 0 {
			return nil, nil, errProtobuf
		}
		size := protowire.ConsumeFieldValue(number, wire, msg[n:])
		if size < 0 {
			return nil, nil, errProtobuf
		}
		value := msg[n : n+size]
		msg = msg[n+size:]
		if wire != protowire.BytesType || number != a && number != b {
			continue
		}
		value, _ = protowire.ConsumeBytes(value)
		if number == a {
			of = value
		} else {
			and = value
		}
	}
	return of, and, nil
}
