// Package patient has a mutex for those who may wait no longer than a context lasts: who has it may be waiting for the
// disk.
package patient

import "context"

// Mutex is a mutex that one can give up waiting for. Make it with New.
type Mutex chan struct{}

// New returns a mutex that is free.
func New() Mutex { return make(Mutex, 1) }

// Lock takes the mutex.
func (m Mutex) Lock() { m <- struct{}{} }

// TryLock takes the mutex if it is free.
func (m Mutex) TryLock() bool {
	select {
	case m <- struct{}{}:
		return true
	default:
		return false
	}
}

// LockContext takes the mutex, or returns the cause if ctx ends before. With a context that has ended it may do either.
func (m Mutex) LockContext(ctx context.Context) error {
	select {
	case m <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Unlock gives the mutex free.
func (m Mutex) Unlock() { <-m }
