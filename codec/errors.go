package codec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/larder-dev/larder/internal/base"
)

// maxTries bounds the decoding attempts in the search for the undecodable field of one object.
const maxTries = 5000

// unmarshal calls fn, which runs methods of a Go type that may be a user's. A panic becomes an error.
func unmarshal(t reflect.Type, fn func() error) error {
	return base.Try(fmt.Sprintf("unmarshalling a *%s", t), fn)
}

// atJSON adds to err the path of the field that cannot be decoded. fails reports whether decoding a reduced JSON text
// fails. It must not panic.
func atJSON(err error, text []byte, fails func(text []byte) bool) error {
	s := jsonSearch{fails: fails, tries: maxTries}
	return atPath(err, s.path(text, nil, nil))
}

// jsonSearch finds the undecodable field of a JSON text by decoding its parts alone.
type jsonSearch struct {
	fails func(text []byte) bool
	tries int // tries is the number of attempts left.
}

// path returns the path to the smallest part of value that cannot be decoded. before and after are the JSON around
// value.
func (s *jsonSearch) path(value, before, after []byte) []string {
	try := func(open, part, end string) bool {
		s.tries--
		return s.tries >= 0 && s.fails(slices.Concat(before, []byte(open+part+end), after))
	}
	descend := func(element, open string, part []byte, end string) []string {
		inner := s.path(part, slices.Concat(before, []byte(open)), slices.Concat([]byte(end), after))
		return append([]string{element}, inner...)
	}
	switch value = bytes.TrimSpace(value); {
	case bytes.HasPrefix(value, []byte("{")):
		var members map[string]json.RawMessage
		if json.Unmarshal(value, &members) != nil || try("{", "", "}") {
			return nil
		}
		for _, name := range slices.Sorted(maps.Keys(members)) {
			quoted, _ := json.Marshal(name)
			if open := "{" + string(quoted) + ":"; try(open, string(members[name]), "}") {
				return descend(fieldName(name), open, members[name], "}")
			}
		}
	case bytes.HasPrefix(value, []byte("[")):
		var elements []json.RawMessage
		if json.Unmarshal(value, &elements) != nil || try("[", "", "]") {
			return nil
		}
		for i, element := range elements {
			if try("[", string(element), "]") {
				return descend("["+strconv.Itoa(i)+"]", "[", element, "]")
			}
		}
	}
	return nil
}

// atProtobuf adds to err the path of the field that cannot be decoded in a message of *t. fails reports whether
// decoding a reduced message fails.
func atProtobuf(err error, t reflect.Type, msg []byte, fails func(msg []byte) bool) error {
	return atPath(err, messagePath(t, msg, fails))
}

// messagePath returns the path to the smallest field of a message that cannot be decoded. t is the message's Go type.
func messagePath(t reflect.Type, msg []byte, fails func(msg []byte) bool) []string {
	for len(msg) > 0 {
		number, wire, value, rest, ok := cutEncoded(msg)
		if !ok {
			return nil
		}
		part := msg[:len(msg)-len(rest)]
		if msg = rest; !fails(part) {
			continue
		}
		f, ok := fieldOfNumber(t, number)
		if !ok {
			return nil
		}
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		var path []string
		if name != "" { // Inlined fields have no name.
			path = []string{fieldName(name)}
		}
		inner, isMessage := content(wire, value)
		if of := messageType(f.Type); isMessage && of != nil {
			path = append(path, messagePath(of, inner, func(inner []byte) bool {
				return fails(protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), inner))
			})...)
		}
		return path
	}
	return nil
}

func fieldOfNumber(t reflect.Type, number protowire.Number) (reflect.StructField, bool) {
	for i := range t.NumField() {
		if f := t.Field(i); protobufNumber(f) == number {
			return f, true
		}
	}
	return reflect.StructField{}, false
}

// messageType returns the struct type of a field's value or elements, or nil for other types.
func messageType(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	return t
}

// fieldName returns the path element for a member, quoted if the name has unusual characters.
func fieldName(name string) string {
	unusual := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_'
	}
	switch {
	case len(name) > 100:
		return "[a name of " + strconv.Itoa(len(name)) + " bytes]"
	case name == "" || strings.ContainsFunc(name, unusual):
		return "[" + strconv.Quote(name) + "]"
	}
	return "." + name
}

func atPath(err error, path []string) error {
	if len(path) == 0 {
		return err
	}
	slices.Reverse(path)
	return &fieldError{path: path, err: err}
}

// errFitsNot replaces errors of a Go type's methods, which may quote the object.
var errFitsNot = errors.New("the value does not fit the type")

// withoutContent replaces an error that may quote the object with one that quotes nothing. Panics stay distinguishable.
func withoutContent(err error) error {
	if base.Panicked(err) {
		return err
	}
	return errFitsNot
}

var (
	errDecodedExtension = errors.New(
		"a runtime.RawExtension with Object set and Raw empty, which protobuf does not carry; set Raw")
	errTooDeep = errors.New("nested too deeply")
)

// fieldError is an error at a field of an object. The text names the field and never its value.
type fieldError struct {
	// path holds the names of the fields from the failed field up to the object's root.
	path []string
	err  error
}

func (e *fieldError) Error() string {
	const shown = 32
	var b strings.Builder
	for i := len(e.path) - 1; i >= 0; i-- {
		if len(e.path)-i > shown {
			b.WriteString("…")
			break
		}
		b.WriteString(e.path[i])
	}
	return strings.TrimPrefix(b.String(), ".") + ": " + e.err.Error()
}

func (e *fieldError) Unwrap() error { return e.err }

// atField wraps err with the name of the field, list element or map key that encloses the failed value.
func atField(err error, element string) error {
	var f *fieldError
	if !errors.As(err, &f) {
		f = &fieldError{err: err}
	}
	f.path = append(f.path, element)
	return f
}
