package source

import (
	"errors"
	"fmt"
	"strings"

	"github.com/larder-dev/larder/entry"
)

// maxListed is the maximum number of problems that an UnreadableError lists in words.
const maxListed = 20

// UnreadableError lists damaged objects. All other selected objects have been read.
type UnreadableError struct {
	// Count is the number of unreadable objects. If AtLeast is set, further objects may be unreadable.
	Count   int
	AtLeast bool
	// Problems describes each unreadable object, or each damaged block of a snapshot, in a line. More is the number of
	// omitted lines.
	Problems []string
	More     int
}

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

func (e *UnreadableError) Unwrap() error { return entry.ErrDamaged }

func (e *UnreadableError) Merge(other *UnreadableError) {
	e.Count += other.Count
	e.AtLeast = e.AtLeast || other.AtLeast
	e.Problems = append(e.Problems, other.Problems...)
	listed := min(len(e.Problems), maxListed)
	e.More += other.More + len(e.Problems) - listed
	e.Problems = e.Problems[:listed]
}

func (e *UnreadableError) errOrNil() error {
	if e.Count == 0 {
		return nil
	}
	return e
}

// add adds err to e and returns nil if err is about damaged objects. It returns any other error unchanged.
func (e *UnreadableError) add(err error) error {
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
