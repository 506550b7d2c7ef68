package source

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/store"
)

// maxListed is how many problems an UnreadableError lists.
const maxListed = 20

// UnreadableError says which objects are damaged. All the others have been read.
type UnreadableError struct {
	// Count is how many could not be read, or if AtLeast is set, how many are known to be missing.
	Count   int  `json:"count"`
	AtLeast bool `json:"atLeast,omitempty"`
	// Problems says which and why: one line for an object, or for a block of a snapshot. More is how many lines were left
	// out.
	Problems []string `json:"problems"`
	More     int      `json:"more,omitempty"`
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

// damaged turns damage of one object into an UnreadableError and leaves other errors as they are.
func damaged(err error) error {
	if !errors.Is(err, entry.ErrDamaged) {
		return err
	}
	return &UnreadableError{Count: 1, Problems: []string{err.Error()}}
}

// eachKey calls fn for each object that q selects and whose key follows after, one by one: it is slower than a Reader's
// Each, and gets past what is damaged. That is named even if q might not have selected it: nobody can tell.
func eachKey(
	ctx context.Context, r Reader, after string, q store.Query, fn func(key string, obj runtime.Object) error,
) error {
	keys, err := r.Keys(ctx)
	unreadable := &UnreadableError{}
	if err := unreadable.take(err); err != nil {
		return err
	}
	prefix := namespacePrefix(q.Namespace)
	for _, key := range keys {
		if key <= after || !strings.HasPrefix(key, prefix) {
			continue
		}
		obj, err := get(ctx, r, key, q)
		if err := unreadable.take(err); err != nil {
			return err
		}
		if obj == nil { // damaged, deleted since, or not selected
			continue
		}
		if err := fn(key, obj); err != nil {
			return err
		}
	}
	return unreadable.errOrNil()
}

// take notes damage, and returns any other error.
func (e *UnreadableError) take(err error) error {
	var one *UnreadableError
	err = damaged(err)
	if errors.As(err, &one) {
		e.Merge(one)
		return nil
	}
	return err
}
