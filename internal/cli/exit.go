package cli

import (
	"errors"
	"fmt"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/source"
	"github.com/larder-dev/larder/snapshot"
	"github.com/larder-dev/larder/store/seal"
)

// Exit codes. The help of larder says what they mean.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
	// exitNotCompared is diff's for what is 1 elsewhere: its 1 is a difference.
	exitNotCompared = 3
)

// codedError is an error with an exit code of its own.
type codedError struct {
	error
	code int
}

func (e codedError) Unwrap() error { return e.error }

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
	var coded codedError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &coded):
		return coded.code
	case errors.As(err, &usage):
		return exitUsage
	}
	return exitFailed
}

// readError adds to an error of reading an open store or snapshot what to do.
func readError(path string, err error) error {
	if errors.Is(err, seal.ErrSealed) || errors.Is(err, seal.ErrWrongKey) {
		by := byFlag
		if source.OfSync(err) {
			by += " to the larder sync that holds it"
		}
		return keyError(path, err, by)
	}
	if errors.Is(err, entry.ErrDamaged) || errors.Is(err, snapshot.ErrDamaged) {
		if isSnapshot(path) {
			return hinted{err, damagedHint(path)}
		}
		return withHint(err, "larder check --from %s lists what is damaged", path)
	}
	return err
}

// damagedHint says what to do about a snapshot that is damaged.
func damagedHint(path string) string {
	return fmt.Sprintf("use another copy of %s, or take a new snapshot", path)
}
