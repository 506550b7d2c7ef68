package command

import (
	"context"
	"errors"
	"fmt"
)

// Exit codes. The help of larder says what they mean.
const (
	OK          = 0
	Failed      = 1
	UsedWrongly = 2
	// exitNotCompared is diff's for what is 1 elsewhere: its 1 is a difference.
	NotCompared = 3
)

// codedError is an error with an exit code of its own.
type codedError struct {
	error
	code int
}

func (e codedError) Unwrap() error { return e.error }

// usageError says that the command was used wrongly.
type usageError struct{ error }

// Usage returns err as one of a command that was used wrongly.
func Usage(err error) error { return usageError{err} }

// Usagef is usage of a text.
func Usagef(format string, args ...any) error { return Usage(fmt.Errorf(format, args...)) }

func (e usageError) Unwrap() error { return e.error }

// told is an error in words of its own.
type told struct {
	error
	is error
}

func (e told) Unwrap() error { return e.is }

// Told returns an error that is another one (errors.Is) and is told in other words.
func Told(is error, format string, args ...any) error { return told{fmt.Errorf(format, args...), is} }

// ErrSilent is a failure that has been reported already.
var ErrSilent = errors.New("failed")

// hinted is an error with what to do about it.
type hinted struct {
	error
	hint string
}

func (e hinted) Unwrap() error { return e.error }

// WithHint returns err with what to do about it; nil for nil.
func WithHint(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return hinted{err, fmt.Sprintf(format, args...)}
}

// Coded returns err with an exit code of its own.
func Coded(err error, code int) error { return codedError{err, code} }

// ExitCode returns the process's exit code for what a command returned.
func ExitCode(err error) int {
	var usedWrongly usageError
	var withCode codedError
	switch {
	case err == nil:
		return OK
	case errors.As(err, &withCode):
		return withCode.code
	case errors.As(err, &usedWrongly):
		return UsedWrongly
	}
	return Failed
}

// interruptedError is that of a command that was asked to end (SIGINT, SIGTERM) before it was done.
type interruptedError struct {
	// left is how it has left things; it may be empty.
	left string
	err  error
}

func (e *interruptedError) Error() string {
	if e.left == "" {
		return "interrupted"
	}
	return fmt.Sprintf("interrupted: %s", e.left)
}

func (e *interruptedError) Unwrap() error { return e.err }

// IfInterrupted returns err, or, if the command was asked to end, an error that says so, and not what failed because of
// it. left is how things were left.
func IfInterrupted(ctx context.Context, err error, left string) error {
	var already *interruptedError
	if err == nil || ctx.Err() == nil || errors.As(err, &already) || errors.Is(err, ErrSilent) {
		return err
	}
	return &interruptedError{left, Coded(context.Canceled, ExitCode(err))}
}

// HintOf is what to do about an error; "" if nobody has said.
func HintOf(err error) string {
	var h hinted
	if errors.As(err, &h) {
		return h.hint
	}
	return ""
}
