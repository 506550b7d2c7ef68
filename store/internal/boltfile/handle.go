package boltfile

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

// Handle is one open bbolt file.
type Handle struct {
	Path string
	DB   *bolt.DB
	// file is the one that bbolt has open and locked.
	File *os.File
	// identity is the file's, by which it is known to have the store's name still.
	Identity os.FileInfo
	// users are the transactions that run or are about to.
	Users sync.WaitGroup
	// written is how many bytes of pages were written through it.
	Written atomic.Int64
	// stuck: a panic left one of bbolt's locks taken. Nothing may wait for them.
	Stuck atomic.Bool
	// unreadable: it left those that every transaction needs.
	unreadable atomic.Bool
}

// Release ends the use that Users.Add began.
func (h *Handle) Release() { h.Users.Done() }

// Close waits for the transactions and closes the file.
func (h *Handle) Close() error {
	if h.Stuck.Load() {
		// bbolt's own Close would wait for ever. The mapping stays, and is not used.
		return closeMapped(h.File)
	}
	h.Users.Wait()
	return h.DB.Close()
}

// View runs fn in a read transaction.
func (h *Handle) View(fn func(tx *bolt.Tx) error) error {
	return contain(func() error {
		tx, err := h.begin(false)
		if err != nil {
			return err
		}
		defer h.rollback(tx)
		return fn(tx)
	})
}

// CommitError is an error of Commit, as opposed to one of the function before it.
type CommitError struct {
	Err error
	// txid of the transaction.
	TxID int
}

func (e *CommitError) Error() string { return e.Err.Error() }
func (e *CommitError) Unwrap() error { return e.Err }

// Update runs fn in a write transaction and commits it with commit.
func (h *Handle) Update(fn, commit func(tx *bolt.Tx) error) error {
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
			return &CommitError{Err: err, TxID: txid}
		}
		stats := tx.Stats()
		h.Written.Add(stats.GetPageAlloc())
		return nil
	})
}

func (h *Handle) begin(writable bool) (*bolt.Tx, error) {
	// bbolt takes its locks and then looks at the meta pages; a panic there would
	// keep them from everybody.
	switch err := boltcheck.Readable(h.File); {
	case errors.Is(err, boltcheck.ErrDamaged), errors.Is(err, boltcheck.ErrForeign):
		return nil, &FaultError{What: err}
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", h.Path, err)
	}
	if h.unreadable.Load() {
		return nil, &FaultError{What: "an earlier fault left it locked"}
	}
	began := false
	defer func() {
		if !began { // it panicked with its locks taken
			h.Stuck.Store(true)
			h.unreadable.Store(!writable || h.unreadable.Load())
		}
	}()
	tx, err := h.DB.Begin(writable)
	began = true
	if errors.Is(err, berrors.ErrDatabaseNotOpen) {
		err = ErrClosed
	}
	return tx, err
}

// rollback ends a transaction that may have been ended already.
func (h *Handle) rollback(tx *bolt.Tx) {
	if h.Stuck.Load() {
		return
	}
	ended := false
	defer func() {
		if !ended {
			h.Stuck.Store(true)
		}
	}()
	err := tx.Rollback()
	ended = err == nil || errors.Is(err, berrors.ErrTxClosed)
}

// Discard closes and removes a file that has not got the store's name.
func (h *Handle) Discard() error {
	return errors.Join(h.Close(), os.Remove(h.Path))
}
