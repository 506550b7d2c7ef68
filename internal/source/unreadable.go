package source

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/larder-dev/larder/store"
)

// maxListed is how many objects an UnreadableError lists.
const maxListed = 20

// UnreadableError says which objects are damaged. All the others have been read.
type UnreadableError struct {
	// Count is how many could not be read, Problems says which and why for the first of them.
	Count    int      `json:"count"`
	Problems []string `json:"problems"`
	// Parts: they are parts of a snapshot, of which each may hold many objects.
	Parts bool `json:"parts,omitempty"`
	// Empty: no object is known to be in these parts, since all that are counted have been read.
	Empty bool `json:"empty,omitempty"`
}

// Error implements error.
func (e *UnreadableError) Error() string {
	one, more := "an object", "objects"
	if e.Parts {
		one, more = "a part of the snapshot, which may hold many objects,", "parts of the snapshot, which may hold many objects,"
	}
	if e.Parts && e.Empty {
		one, more = "a part of the snapshot, in which no object is known to be,", "parts of the snapshot, in which no object is known to be,"
	}
	if e.Count == 1 {
		return one + " could not be read: " + strings.Join(e.Problems, "")
	}
	lines := append([]string{fmt.Sprintf("%d %s could not be read:", e.Count, more)}, e.Problems...)
	if more := e.Count - len(e.Problems); more > 0 {
		lines = append(lines, fmt.Sprintf("… and %d more", more))
	}
	return strings.Join(lines, "\n  ")
}

// Unwrap makes errors.Is(err, store.ErrDamaged) true.
func (e *UnreadableError) Unwrap() error { return store.ErrDamaged }

// Merge adds what another one lists.
func (e *UnreadableError) Merge(other *UnreadableError) {
	e.Empty = other.Empty && (e.Empty || e.Count == 0)
	e.Count += other.Count
	e.Parts = e.Parts || other.Parts
	e.Problems = append(e.Problems, other.Problems...)
	e.Problems = e.Problems[:min(len(e.Problems), maxListed)]
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
	if !errors.Is(err, store.ErrDamaged) {
		return err
	}
	return &UnreadableError{Count: 1, Problems: []string{err.Error()}}
}

// eachKey calls fn for each object that q selects and whose key follows after, one by one: it is
// slower than a Reader's Each, and gets past what is damaged. That is named even if q might not have selected it: nobody can tell.
func eachKey(ctx context.Context, r Reader, after string, q store.Query, fn func(key string, obj runtime.Object) error) error {
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
