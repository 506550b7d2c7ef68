package base

import (
	"errors"
	"fmt"
	"runtime"
)

type tried struct{ error }

func (t tried) Unwrap() error { return t.error }

// Panicked reports whether Try made err of a panic.
func Panicked(err error) bool { return errors.As(err, &tried{}) }

// Try calls fn on the caller's goroutine and returns the error of fn. If fn panics, Try returns an error that begins
// with what. The error contains the panic value only if that is a runtime.Error, because other values may contain an
// object's content.
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
