package boltfile

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/entry"
)

// Classify turns an error of a transaction of h into the error for the caller. If the file is damaged or overwritten,
// Classify makes the file fail. But it only notes a format.DamagedRecord (Damaged).
func (f *File) Classify(h *Handle, err error) error {
	var fault *FaultError
	var failed *commitError
	switch {
	case errors.As(err, &fault):
		err = fmt.Errorf("%s: %w", f.Path, err)
		f.Fail(h, err)
	case errors.As(err, &failed):
		err = f.classify(h, failed)
	case f.note(err):
		err = fmt.Errorf("%s: %w", f.Path, err)
	case errors.Is(err, entry.ErrDamaged):
		err = fmt.Errorf("%s: %w", f.Path, err)
		f.Fail(h, err)
	case errors.Is(err, ErrOverwritten):
		err = fmt.Errorf("%s: %w", f.Path, err)
		f.Fail(h, err)
	}
	return err
}

// classify returns the error for a failed commit: ErrNoSpace if nothing was written for lack of space, and otherwise
// ErrOutcomeUnknown. Readers see a transaction once its meta page is written, even if the sync of that page then fails.
// After a crash, the transaction may or may not be in the file.
func (f *File) classify(h *Handle, failed *commitError) error {
	advanced := true
	err := h.View(func(tx *bolt.Tx) error {
		advanced = tx.ID() >= failed.TxID
		return nil
	})
	if err == nil && !advanced && isNoSpace(failed.Err) {
		return fmt.Errorf("write %s: %w: %w", f.Path, ErrNoSpace, failed.Err)
	}
	// Even if readers do not see the transaction, the sync of one of its pages may have failed. The kernel reports that
	// once, and then considers the page clean.
	return f.failUnknown(h, &UnknownError{
		Err: fmt.Errorf("write %s: %w: %w", f.Path, ErrOutcomeUnknown, failed.Err), txID: failed.TxID,
	})
}

// Report does what Classify does for an error that was found outside a transaction, in data of the file.
func (f *File) Report(err error) {
	if h, closed := f.acquire(); closed == nil {
		defer h.Release()
		_ = f.Classify(h, err) //nolint:errcheck // The caller returns err itself.
	}
}

// UnknownError is the error of a commit whose outcome is unknown. It wraps ErrOutcomeUnknown. Only the holder of the
// writer lock uses the other fields.
type UnknownError struct {
	Err  error
	txID int // txID is the id of the transaction.
	// resolved is true once the file was exchanged for a copy, and committed is true if the copy has the transaction.
	resolved, committed bool
}

func (e *UnknownError) Error() string { return e.Err.Error() }
func (e *UnknownError) Unwrap() error { return e.Err }

// failUnknown makes the next writer exchange the file for a copy first. Where an open file cannot be exchanged, it
// stops all writes.
func (f *File) failUnknown(h *Handle, err *UnknownError) error {
	if !RenamesOpen {
		f.Fail(h, err)
		return err
	}
	f.unknown = err
	f.leaveMark(false)
	return err
}

// Resolve makes sure that the file was exchanged for a copy since the commit that failed with unknown, and reports
// whether the copy has that commit. The caller has the writer lock.
func (f *File) Resolve(ctx context.Context, unknown *UnknownError) (committed bool, err error) {
	if err := f.Err(); err != nil {
		return false, fmt.Errorf("nothing is written any more: %w", err)
	}
	if !unknown.resolved {
		err = f.KeepName(ctx)
	}
	return unknown.committed, err
}

// Fail stops all writes, if h is the current handle. It keeps the first reason, except that ErrOverwritten replaces it,
// which stops reads too. After damage, Fail leaves a Mark that makes the next process copy the readable part of the
// file, and otherwise one that makes it verify every page.
func (f *File) Fail(h *Handle, reason error) {
	if f.fail(h, reason) && !f.o.ReadOnly {
		f.leaveMark(errors.Is(reason, entry.ErrDamaged))
	}
}

func (f *File) leaveMark(copies bool) {
	if err := leaveMark(f.real, copies); err != nil {
		f.Logger().Error(err, "No mark could be left for the next process that opens the store")
	}
}

// FaultError reports damage of the file that a transaction found. What is the recovered panic value, or a description
// of the damage. FaultError wraps entry.ErrDamaged.
type FaultError struct{ What any }

// memoryFault is implemented by the runtime's panic value for an unreadable mapped page.
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

// Package store exports and documents these errors.
var (
	ErrLocked      = errors.New("the store is in use")
	ErrNewerFormat = errors.New("the store's format is newer than this program")
	ErrExists      = errors.New("there is a file of that name already")
	ErrForeign     = errors.New("the file is not a store of Larder")
	ErrClosed      = errors.New(
		"the store is closed (close it last, after its informers and all readers, as informer.Run does)")
	ErrReadOnly       = errors.New("the store is open for reading only")
	ErrNoSpace        = errors.New("no space left for the store")
	ErrOutcomeUnknown = errors.New("the store failed to reach the disk")
	ErrReplaced       = errors.New(
		"another file has taken the place of the store's file and is left alone: move it away to have the " +
			"store written there again, or end this process and start it again on that file")
	ErrOverwritten = errors.New("another file has been copied over the store's file while it was open, and nothing of " +
		"it is read: end this process, put the file there that is wanted, and start again")
	ErrStillWriting = errors.New(
		"the disk has not finished what was begun, and the file stays locked by this process until it has")
	ErrSlowDisk = errors.New("the disk has not finished a write for long")
)
