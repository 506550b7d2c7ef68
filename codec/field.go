package codec

import (
	"errors"
	"strings"
)

var (
	errDecodedExtension = errors.New(
		"a runtime.RawExtension with Object set and Raw empty, which protobuf does not carry; set Raw")
	errTooDeep = errors.New("nested too deeply")
)

// fieldError is an error at a field of an object. It names the field and never its value.
type fieldError struct {
	// path leads from the field to the root: each caller appends its element.
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

// atField adds an element to the path of err.
func atField(err error, element string) error {
	var f *fieldError
	if !errors.As(err, &f) {
		f = &fieldError{err: err}
	}
	f.path = append(f.path, element)
	return f
}
