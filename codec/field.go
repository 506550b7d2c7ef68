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
