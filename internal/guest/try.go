package guest

import (
	"errors"
	"fmt"
	"runtime"
)

// tried is the error for a panic in a function that Try has called.
type tried struct{ error }

func (t tried) Unwrap() error { return t.error }

// Panicked reports whether err comes from a panic in a function that Try has called.
func Panicked(err error) bool { return errors.As(err, &tried{}) }

// Try calls fn on the caller's goroutine, and returns its error. It returns a panic as an error that begins with what.
// The error does not contain the panic value unless that is a runtime.Error, since the value may contain an object's
// content.
func Try(what string, fn func() error) (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case runtime.Error:
			err = tried{fmt.Errorf("%s panicked: %w", what, r)}
		default:
			err = tried{fmt.Errorf("%s panicked with a %T", what, r)}
		}
	}()
	return fn()
}
