package boltfile

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/larder-dev/larder/entry"
)

// FaultError reports damage of the file that a transaction found. What is the recovered panic value, or a description
// of the damage. FaultError wraps entry.ErrDamaged.
type FaultError struct{ What any }

type memoryFault interface{ Addr() uintptr }

func asMemoryFault(recovered any) (fault memoryFault, ok bool) {
	err, _ := recovered.(error)
	return fault, errors.As(err, &fault)
}

// isMemoryFault reports whether a page was unreadable. Otherwise the page is malformed.
func (e *FaultError) isMemoryFault() bool {
	_, ok := asMemoryFault(e.What)
	return ok
}

func (e *FaultError) Error() string {
	if fault, ok := asMemoryFault(e.What); ok {
		return fmt.Sprintf("%v: a page could not be read (memory fault at %#x)", entry.ErrDamaged, fault.Addr())
	}
	return fmt.Sprintf("%v: a page is malformed (%v)", entry.ErrDamaged, e.What)
}

func (e *FaultError) Unwrap() error { return entry.ErrDamaged }

// contain runs fn and returns its error. If fn causes a memory fault (the mapped file is truncated or unreadable) or
// bbolt panics (a page is malformed), contain returns a FaultError. It passes on any other panic, which is a bug in the
// program and not damage of the file.
func contain(fn func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	returned := false
	defer func() {
		if returned {
			return
		}
		// panickedInBolt must precede recover, while the frames that panicked are still on the stack.
		fromBolt := panickedInBolt()
		r := recover()
		if r == nil {
			return
		}
		if _, memory := asMemoryFault(r); !fromBolt && !memory {
			panic(r)
		}
		err = &FaultError{What: r}
	}()
	err = fn()
	returned = true
	return err
}

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
