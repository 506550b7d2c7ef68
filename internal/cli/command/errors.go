package command

import (
	"context"
	"errors"
	"fmt"
)

// Exit codes, documented in larder --help.
const (
	OK          = 0
	Failed      = 1
	UsedWrongly = 2
	// NotCompared is diff's code for failures that are 1 in other commands: its 1 means a difference.
	NotCompared = 3
)

// codedError is an error with an exit code of its own.
type codedError struct {
	error
	code int
}

func (e codedError) Unwrap() error { return e.error }

// usageError marks an error as wrong usage.
type usageError struct{ error }

// Usage marks err as wrong usage: exit code 2.
func Usage(err error) error { return usageError{err} }

// Usagef is fmt.Errorf with Usage.
func Usagef(format string, args ...any) error { return Usage(fmt.Errorf(format, args...)) }

func (e usageError) Unwrap() error { return e.error }

// reworded is an error with its own text that unwraps to another error.
type reworded struct {
	error
	is error
}

func (e reworded) Unwrap() error { return e.is }

// Reworded returns an error with a new text. errors.Is(err, is) is true for it.
func Reworded(is error, format string, args ...any) error {
	return reworded{fmt.Errorf(format, args...), is}
}

// ErrSilent is the error of a command that has already reported its failure.
var ErrSilent = errors.New("failed")

// hinted is an error with a hint for the user.
type hinted struct {
	error
	hint string
}

func (e hinted) Unwrap() error { return e.error }

// WithHint adds to err a hint that says what to do; nil stays nil.
func WithHint(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return hinted{err, fmt.Sprintf(format, args...)}
}

// Coded gives err an exit code of its own.
func Coded(err error, code int) error { return codedError{err, code} }

// ExitCode returns the process's exit code for the error of a command.
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

// interruptedError is the error of a command that SIGINT or SIGTERM ended early.
type interruptedError struct {
	// left describes the state that the command left behind; it may be empty.
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

// IfInterrupted returns err, or an interruptedError if ctx has ended: err is then only a consequence, but
// keeps its exit code. left describes the state that the command left behind.
func IfInterrupted(ctx context.Context, err error, left string) error {
	var already *interruptedError
	if err == nil || ctx.Err() == nil || errors.As(err, &already) || errors.Is(err, ErrSilent) {
		return err
	}
	return &interruptedError{left, Coded(context.Canceled, ExitCode(err))}
}

// HintOf returns the hint of an error, or "" if it has none.
func HintOf(err error) string {
	var h hinted
	if errors.As(err, &h) {
		return h.hint
	}
	return ""
}
