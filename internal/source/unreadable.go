package source

import (
	"errors"
	"fmt"
	"strings"

	"github.com/larder-dev/larder/entry"
)

// maxListed is how many problems an UnreadableError lists.
const maxListed = 20

// UnreadableError says which objects are damaged. All the others have been read.
type UnreadableError struct {
	// Count is how many could not be read, or if AtLeast is set, how many are known to be missing.
	Count   int
	AtLeast bool
	// Problems says which and why: one line for an object, or for a block of a snapshot. More is how many lines were left
	// out.
	Problems []string
	More     int
}

// Error implements error.
func (e *UnreadableError) Error() string {
	count := "an object"
	switch {
	case e.AtLeast:
		count = fmt.Sprintf("at least %d objects", e.Count)
	case e.Count != 1:
		count = fmt.Sprintf("%d objects", e.Count)
	}
	if len(e.Problems) == 1 && e.More == 0 {
		return count + " could not be read: " + e.Problems[0]
	}
	lines := append([]string{count + " could not be read:"}, e.Problems...)
	if e.More > 0 {
		lines = append(lines, fmt.Sprintf("… and %d more", e.More))
	}
	return strings.Join(lines, "\n  ")
}

// Unwrap makes errors.Is(err, entry.ErrDamaged) true.
func (e *UnreadableError) Unwrap() error { return entry.ErrDamaged }

// Merge adds what another one lists.
func (e *UnreadableError) Merge(other *UnreadableError) {
	e.Count += other.Count
	e.AtLeast = e.AtLeast || other.AtLeast
	e.Problems = append(e.Problems, other.Problems...)
	listed := min(len(e.Problems), maxListed)
	e.More += other.More + len(e.Problems) - listed
	e.Problems = e.Problems[:listed]
}

// errOrNil is e if there was a problem.
func (e *UnreadableError) errOrNil() error {
	if e.Count == 0 {
		return nil
	}
	return e
}

// take notes damage, and returns any other error.
func (e *UnreadableError) take(err error) error {
	var other *UnreadableError
	switch {
	case errors.As(err, &other):
		e.Merge(other)
	case errors.Is(err, entry.ErrDamaged):
		var record *entry.RecordError
		if errors.As(err, &record) {
			err = record
		}
		e.Merge(&UnreadableError{Count: 1, Problems: []string{err.Error()}})
	default:
		return err
	}
	return nil
}
