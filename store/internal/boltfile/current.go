package boltfile

import (
	"errors"
	"fmt"
	"sync"
)

// current is the handle that a File uses now, and the error that made the File fail.
type current struct {
	path string // the file's name, for errors

	mu      sync.Mutex
	handle  *Handle       // guarded by mu; nil until the file is open, and after it was closed
	failure error         // guarded by mu; the error because of which nothing is written any more
	failed  chan struct{} // guarded by mu; closed while failure is not nil
	written int64         // guarded by mu; bytes written through the handles that were replaced
}

// acquire returns the current handle, which the caller must release. It fails with ErrClosed if the file is not open,
// and with ErrOverwritten once a transaction has found that the file was overwritten.
func (c *current) acquire() (*Handle, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.handle == nil {
		return nil, fmt.Errorf("%s: %w", c.path, ErrClosed)
	}
	if errors.Is(c.failure, ErrOverwritten) {
		return nil, c.failure
	}
	c.handle.Users.Add(1)
	return c.handle, nil
}

// Err returns the error because of which the file is not written until an Exchange replaces it, or nil while the file
// works. The error wraps ErrOutcomeUnknown, ErrDamaged or ErrOverwritten. ErrOverwritten is final, and then the file is
// not read either.
func (c *current) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failure
}

// Failed returns a channel that is closed once Err is not nil. An exchange replaces the channel with a new one.
func (c *current) Failed() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failed
}

// fail records the failure if h is the current handle. It returns false if h is not current, or if the file has failed
// before.
func (c *current) fail(h *Handle, reason error) (first bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.handle != h:
		return false
	case c.failure == nil:
		c.failure = reason
		close(c.failed)
		return true
	case errors.Is(reason, ErrOverwritten):
		c.failure = reason
	}
	return false
}

// IsCurrent reports whether h is the current handle. Exchange and Close replace the current handle.
func (c *current) IsCurrent(h *Handle) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.handle == h
}

// use makes h the current handle and clears the failure of the old one. It calls the function then before any caller
// can acquire h.
func (c *current) use(h *Handle, then func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.replaceLocked(h)
	if c.failure != nil {
		c.failure, c.failed = nil, make(chan struct{})
	}
	then()
}

// remove removes the current handle and returns it, with its failure; nil if there is none.
func (c *current) remove() (h *Handle, failure error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	h = c.handle
	c.replaceLocked(nil)
	return h, c.failure
}

func (c *current) replaceLocked(h *Handle) {
	if c.handle != nil {
		c.written += c.handle.Written.Load()
	}
	c.handle = h
}

// Written returns the number of bytes written since the file was opened, in whole pages, as bbolt writes them. It
// includes the copies by Exchange.
func (c *current) Written() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.handle == nil {
		return c.written
	}
	return c.written + c.handle.Written.Load()
}
