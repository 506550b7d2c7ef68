package cli

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/larder-dev/larder/internal/source"
	"github.com/larder-dev/larder/store"
)

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

// usageError says that the command was used wrongly.
type usageError struct{ error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

func (e usageError) Unwrap() error { return e.error }

// errSilent is a failure that has been reported already.
var errSilent = errors.New("failed")

// hinted is an error with what to do about it.
type hinted struct {
	error
	hint string
}

func (e hinted) Unwrap() error { return e.error }

func withHint(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return hinted{err, fmt.Sprintf(format, args...)}
}

// exitCode returns the process's exit code for what a command returned.
func exitCode(err error) int {
	var usage usageError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &usage):
		return exitUsage
	}
	return exitFailed
}

// storeError adds to an error of opening the store's file what to do.
func storeError(path string, err error) error {
	var held *source.HeldError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &held):
		return withHint(err, "a program other than larder sync holds the file: stop it, or ask it")
	case errors.Is(err, fs.ErrNotExist):
		return withHint(fmt.Errorf("no store at %s", path), "make one with: larder sync RESOURCE… --store %s", path)
	case errors.Is(err, fs.ErrPermission):
		return withHint(err, "the store belongs to the user who ran larder sync; run as that user")
	case errors.Is(err, store.ErrNewerFormat):
		return withHint(err, "use a newer larder, or remove %s and let larder sync build it anew", path)
	case errors.Is(err, store.ErrDamaged):
		return withHint(err, "the next larder sync moves %s aside and builds it anew", path)
	}
	return err
}

// readError adds to an error of reading an open store what to do.
func readError(path string, err error) error {
	if errors.Is(err, store.ErrDamaged) {
		return withHint(err, "larder check --store %s lists what is damaged", path)
	}
	return err
}
