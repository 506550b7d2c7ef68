package store

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/larder-dev/larder/internal/boltcheck"
)

// handle is one open bbolt file.
type handle struct {
	path string
	db   *bolt.DB
	// file is the one that bbolt has open and locked.
	file *os.File
	// identity is the file's, by which it is known to have the store's name still.
	identity os.FileInfo
	// users are the transactions that run or are about to.
	users sync.WaitGroup
	// written is how many bytes of pages were written through it.
	written atomic.Int64
	// stuck: a panic left one of bbolt's locks taken. Nothing may wait for them.
	stuck atomic.Bool
	// unreadable: it left those that every transaction needs.
	unreadable atomic.Bool
}

// acquire returns the handle to use; release it soon.
func (s *Store) acquire() (*handle, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.handle == nil {
		return nil, fmt.Errorf("%s: %w", s.path, ErrClosed)
	}
	s.handle.users.Add(1)
	return s.handle, nil
}

func (h *handle) release() { h.users.Done() }

// close waits for the transactions and closes the file.
func (h *handle) close() error {
	if h.stuck.Load() {
		// bbolt's own Close would wait for ever. The mapping stays, and is not used.
		return closeMapped(h.file)
	}
	h.users.Wait()
	return h.db.Close()
}

// view runs fn in a read transaction.
func (h *handle) view(fn func(tx *bolt.Tx) error) error {
	return contain(func() error {
		tx, err := h.begin(false)
		if err != nil {
			return err
		}
		defer h.rollback(tx)
		return fn(tx)
	})
}

// commitError is an error of Commit, as opposed to one of the function before it.
type commitError struct {
	err error
	// txid of the transaction.
	txid int
}

func (e *commitError) Error() string { return e.err.Error() }
func (e *commitError) Unwrap() error { return e.err }

// update runs fn in a write transaction and commits it with commit.
func (h *handle) update(fn, commit func(tx *bolt.Tx) error) error {
	return contain(func() error {
		tx, err := h.begin(true)
		if err != nil {
			return err
		}
		defer h.rollback(tx) // does nothing once committed
		if err := fn(tx); err != nil {
			return err
		}
		txid := tx.ID()
		if err := commit(tx); err != nil {
			return &commitError{err: err, txid: txid}
		}
		stats := tx.Stats()
		h.written.Add(stats.GetPageAlloc())
		return nil
	})
}

func (h *handle) begin(writable bool) (*bolt.Tx, error) {
	// bbolt takes its locks and then looks at the meta pages; a panic there would
	// keep them from everybody.
	switch err := boltcheck.Readable(h.file); {
	case errors.Is(err, boltcheck.ErrDamaged), errors.Is(err, boltcheck.ErrForeign):
		return nil, &faultError{what: err}
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", h.path, err)
	}
	if h.unreadable.Load() {
		return nil, &faultError{what: "an earlier fault left it locked"}
	}
	began := false
	defer func() {
		if !began { // it panicked with its locks taken
			h.stuck.Store(true)
			h.unreadable.Store(!writable || h.unreadable.Load())
		}
	}()
	tx, err := h.db.Begin(writable)
	began = true
	if errors.Is(err, berrors.ErrDatabaseNotOpen) {
		err = ErrClosed
	}
	return tx, err
}

// rollback ends a transaction that may have been ended already.
func (h *handle) rollback(tx *bolt.Tx) {
	if h.stuck.Load() {
		return
	}
	ended := false
	defer func() {
		if !ended {
			h.stuck.Store(true)
		}
	}()
	err := tx.Rollback()
	ended = err == nil || errors.Is(err, berrors.ErrTxClosed)
}
