package guest

import (
	"fmt"
	"runtime"
)

// Try calls fn on the caller's goroutine, and returns its error. A panic becomes an error, which begins with what and
// does not have the value of the panic, except if that is a runtime.Error: it may contain contents of an object.
func Try(what string, fn func() error) (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case runtime.Error:
			err = fmt.Errorf("%s panicked: %w", what, r)
		default:
			err = fmt.Errorf("%s panicked with a %T", what, r)
		}
	}()
	return fn()
}
