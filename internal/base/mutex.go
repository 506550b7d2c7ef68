// Package patient provides a mutex and a sleep that stop waiting when a context ends. The mutex is for critical
// sections that may wait for the disk.
package base

import "context"

// Mutex is a mutex whose LockContext stops waiting when a context ends. Create it with New.
type Mutex chan struct{}

func NewMutex() Mutex { return make(Mutex, 1) }

func (m Mutex) Lock() { m <- struct{}{} }

func (m Mutex) TryLock() bool {
	select {
	case m <- struct{}{}:
		return true
	default:
		return false
	}
}

// LockContext locks the mutex. If ctx ends first, it returns the cause of ctx. If ctx has ended before the call,
// LockContext may lock or fail.
func (m Mutex) LockContext(ctx context.Context) error {
	select {
	case m <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (m Mutex) Unlock() { <-m }
