package command

import (
	"context"
	"errors"
	"fmt"
)

// OK and the other exit codes are documented in larder --help.
const (
	OK          = 0
	Failed      = 1
	UsedWrongly = 2
	// NotCompared is the exit code of larder diff for failures that are exit code 1 in other commands, because diff exits
	// with 1 if it finds a difference.
	NotCompared = 3
)

type codedError struct {
	error
	code int
}

func (e codedError) Unwrap() error { return e.error }

type usageError struct{ error }

// Usage marks err as wrong usage of the command line, which has exit code 2.
func Usage(err error) error { return usageError{err} }

func Usagef(format string, args ...any) error { return Usage(fmt.Errorf(format, args...)) }

func (e usageError) Unwrap() error { return e.error }

type reworded struct {
	error
	is error
}

func (e reworded) Unwrap() error { return e.is }

func Reworded(is error, format string, args ...any) error {
	return reworded{fmt.Errorf(format, args...), is}
}

// ErrSilent is the error of a command that has already printed its failure: only the exit code is left to set.
var ErrSilent = errors.New("failed")

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

func Coded(err error, code int) error { return codedError{err, code} }

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

type interruptedError struct {
	// left says in which state the command left its files; it may be empty.
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

// IfInterrupted returns err if ctx has not ended. Otherwise err is only a consequence of the interruption, and
// IfInterrupted returns an interruptedError with the exit code of err. left says in which state the command left its
// files.
func IfInterrupted(ctx context.Context, err error, left string) error {
	var already *interruptedError
	if err == nil || ctx.Err() == nil || errors.As(err, &already) || errors.Is(err, ErrSilent) {
		return err
	}
	return &interruptedError{left, Coded(context.Canceled, ExitCode(err))}
}

func HintOf(err error) string {
	var h hinted
	if errors.As(err, &h) {
		return h.hint
	}
	return ""
}
