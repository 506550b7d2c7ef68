package cli

import (
	"context"
	"errors"
	"fmt"
)

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

// ifInterrupted returns err, or, if the command was asked to end, an error that says so, and not what failed because of
// it. left is how things were left.
func ifInterrupted(ctx context.Context, err error, left string) error {
	var already *interruptedError
	if err == nil || ctx.Err() == nil || errors.As(err, &already) || errors.Is(err, errSilent) {
		return err
	}
	return &interruptedError{left, codedError{context.Canceled, exitCode(err)}}
}
