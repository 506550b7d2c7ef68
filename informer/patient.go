package informer

import "context"

// patientMutex is a mutex for which one may wait no longer than a context lasts: who has it may be waiting for the disk.
type patientMutex chan struct{}

func newPatientMutex() patientMutex { return make(patientMutex, 1) }

// Lock takes the mutex.
func (m patientMutex) Lock() { m <- struct{}{} }

// TryLock takes the mutex if it is free.
func (m patientMutex) TryLock() bool {
	select {
	case m <- struct{}{}:
		return true
	default:
		return false
	}
}

// LockContext takes the mutex unless ctx ends before.
func (m patientMutex) LockContext(ctx context.Context) error {
	select {
	case m <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Unlock gives the mutex free.
func (m patientMutex) Unlock() { <-m }
