package boltfile

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/larder-dev/larder/entry"
)

// FaultError is damage of the file that was met in a transaction. What is the value of the panic that contain has
// recovered, or describes the damage. It wraps entry.ErrDamaged.
type FaultError struct{ What any }

// ofMemory reports whether a page could not be read; if false, it was read and makes no sense.
func (e *FaultError) ofMemory() bool {
	_, ok := e.What.(interface{ Addr() uintptr })
	return ok
}

func (e *FaultError) Error() string {
	if fault, ok := e.What.(interface{ Addr() uintptr }); ok {
		return fmt.Sprintf("%v: a page could not be read (memory fault at %#x)", entry.ErrDamaged, fault.Addr())
	}
	return fmt.Sprintf("%v: a page makes no sense (%v)", entry.ErrDamaged, e.What)
}

func (e *FaultError) Unwrap() error { return entry.ErrDamaged }

// contain runs fn and returns its error. If fn causes a memory fault (the mapped file was truncated or cannot be read)
// or bbolt panics (a page makes no sense), contain returns a FaultError. Any other panic is passed on: it is a bug in
// the program, not damage of the file.
func contain(fn func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	returned := false
	defer func() {
		if returned {
			return
		}
		// This must precede recover: the frames that panicked are still on the stack.
		fromBolt := panickedInBolt()
		r := recover()
		if r == nil {
			return
		}
		var fault interface{ Addr() uintptr }
		cause, _ := r.(error)
		if !fromBolt && !errors.As(cause, &fault) {
			panic(r)
		}
		err = &FaultError{What: r}
	}()
	err = fn()
	returned = true
	return err
}

// panickedInBolt reports whether the function that panicked is one of bbolt's.
func panickedInBolt() bool {
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)])
	panicking := false
	for {
		frame, more := frames.Next()
		switch {
		case frame.Function == "runtime.gopanic":
			panicking = true
		case panicking && !strings.HasPrefix(frame.Function, "runtime."):
			return strings.HasPrefix(frame.Function, "go.etcd.io/bbolt")
		}
		if !more {
			return false
		}
	}
}
