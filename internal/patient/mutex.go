// Package patient provides a mutex and a sleep that end with a context. The mutex is for holders that may wait for the
// disk.
package patient

import "context"

// Mutex is a mutex with LockContext. Make it with New.
type Mutex chan struct{}

// New returns an unlocked mutex.
func New() Mutex { return make(Mutex, 1) }

// Lock locks the mutex.
func (m Mutex) Lock() { m <- struct{}{} }

// TryLock locks the mutex if it is free, and returns whether it did.
func (m Mutex) TryLock() bool {
	select {
	case m <- struct{}{}:
		return true
	default:
		return false
	}
}

// LockContext locks the mutex, or returns ctx's cause if ctx ends first. If ctx has ended already, it may do either.
func (m Mutex) LockContext(ctx context.Context) error {
	select {
	case m <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Unlock unlocks the mutex.
func (m Mutex) Unlock() { <-m }
