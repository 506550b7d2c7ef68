package boltfile

import (
	"errors"
	"fmt"
	"sync"
)

type current struct {
	path string

	mu      sync.Mutex
	handle  *Handle       // mu guards handle; nil before Open and after Close.
	failure error         // mu guards failure, the error that stopped all writes.
	failed  chan struct{} // mu guards failed, which is closed while failure is not nil.
	written int64         // mu guards written, the bytes written through replaced handles.
}

// acquire returns the current handle, which the caller must release. It fails with ErrClosed if the file is not open,
// and with ErrOverwritten once a transaction has found that another file was copied over the file.
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

// Err returns the error that stopped all writes, or nil. The error wraps ErrOutcomeUnknown, ErrDamaged or
// ErrOverwritten. An Exchange clears the first two. ErrOverwritten is final, and stops reads too.
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

// fail sets the failure of the file. It returns false if h is not the current handle, or if the file has failed before.
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

func (c *current) IsCurrent(h *Handle) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.handle == h
}

// use makes h the current handle and clears the failure. It calls then before any caller can acquire h.
func (c *current) use(h *Handle, then func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.replaceLocked(h)
	if c.failure != nil {
		c.failure, c.failed = nil, make(chan struct{})
	}
	then()
}

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

// Written returns the bytes of the pages written since the file was opened, including the copies by Exchange.
func (c *current) Written() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.handle == nil {
		return c.written
	}
	return c.written + c.handle.Written.Load()
}
