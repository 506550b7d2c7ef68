package boltfile

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/internal/boltcheck"
	"github.com/larder-dev/larder/store/internal/format"
)

// Handle is one open bbolt file.
type Handle struct {
	Path string
	DB   *bolt.DB
	// File is the locked file that bbolt uses.
	File *os.File
	// Identity identifies the file by device and inode, to check whether the file still has the store's name.
	Identity os.FileInfo
	// id is the file id in the root bucket, which every transaction compares; nil until adopt.
	id []byte
	// committed is the id of the newest transaction whose commit has succeeded.
	committed atomic.Int64
	// Users counts the transactions that run or are about to begin. Close waits for them.
	Users sync.WaitGroup
	// Written is the number of bytes of pages that committed transactions allocated.
	Written atomic.Int64
	// Stuck is true if a panic has left one of bbolt's locks locked. No goroutine may wait for bbolt's locks then.
	Stuck atomic.Bool
	// unreadable is true if a panic has left a lock locked that every transaction of bbolt needs.
	unreadable atomic.Bool
}

// Release ends a use of the handle that began with Users.Add(1).
func (h *Handle) Release() { h.Users.Done() }

// Close waits for the transactions and closes the file. If Stuck is true, it does not wait.
func (h *Handle) Close() error {
	if h.Stuck.Load() {
		// bbolt's own Close would wait for ever for its lock. The mapping stays, but is not used.
		return closeMapped(h.File)
	}
	h.Users.Wait()
	return h.DB.Close()
}

// View runs fn in a read transaction. Damage of the file that fn finds becomes a FaultError.
func (h *Handle) View(fn func(tx *bolt.Tx) error) error {
	return contain(func() error {
		committed := h.committed.Load()
		tx, err := h.begin(false)
		if err != nil {
			return err
		}
		defer h.rollback(tx)
		if err := h.verifyIdentity(tx, committed); err != nil {
			return err
		}
		return fn(tx)
	})
}

// adopt reads the file id and the id of the newest transaction, with which verifyIdentity compares later transactions.
func (h *Handle) adopt(tx *bolt.Tx) error {
	h.id = bytes.Clone(tx.Bucket(format.BucketLarder).Get(format.KeyFileID))
	h.committed.Store(int64(tx.ID()))
	return nil
}

// verifyIdentity returns ErrOverwritten if tx reads another file, or another state of this file, such as a backup. A
// file that is copied over the open one keeps the inode, and bbolt reads the new content. Only this process writes, so
// tx must see the newest committed transaction, or one whose commit has not returned yet. committed is the value of
// h.committed from before tx began.
func (h *Handle) verifyIdentity(tx *bolt.Tx, committed int64) error {
	if h.id == nil {
		return nil
	}
	b, at := tx.Bucket(format.BucketLarder), int64(tx.ID())
	if tx.Writable() {
		at-- // A write transaction's id is one higher than the id of the state it reads.
	}
	switch {
	case b == nil:
		return fmt.Errorf("it is not the store any more: %w", ErrOverwritten)
	case !bytes.Equal(b.Get(format.KeyFileID), h.id):
		return fmt.Errorf("its file id is %q, and was %q: %w", b.Get(format.KeyFileID), h.id, ErrOverwritten)
	case at < committed || at > h.committed.Load()+1:
		return fmt.Errorf("its state is that of transaction %d, and was that of %d: %w", at, committed, ErrOverwritten)
	}
	return nil
}

// commitError is an error of the commit in Update. Errors of the caller's function are not wrapped.
type commitError struct {
	Err  error
	TxID int
}

func (e *commitError) Error() string { return e.Err.Error() }
func (e *commitError) Unwrap() error { return e.Err }

// Update runs fn in a write transaction and commits it with commit.
func (h *Handle) Update(fn, commit func(tx *bolt.Tx) error) error {
	return contain(func() error {
		tx, err := h.begin(true)
		if err != nil {
			return err
		}
		defer h.rollback(tx) // rollback does nothing after a commit.
		if err := h.verifyIdentity(tx, h.committed.Load()); err != nil {
			return err
		}
		if err := fn(tx); err != nil {
			return err
		}
		txid := tx.ID()
		if err := commit(tx); err != nil {
			return &commitError{Err: err, TxID: txid}
		}
		h.committed.Store(int64(txid))
		stats := tx.Stats()
		h.Written.Add(stats.GetPageAlloc())
		return nil
	})
}

func (h *Handle) begin(writable bool) (*bolt.Tx, error) {
	// bbolt takes its locks and then reads the meta pages; a panic there would leave the locks locked.
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
		if !began { // bbolt panicked while it held its locks.
			h.Stuck.Store(true)
			h.unreadable.Store(!writable || h.unreadable.Load())
		}
	}()
	tx, err := h.DB.Begin(writable)
	began = true
	return tx, err
}

func (h *Handle) rollback(tx *bolt.Tx) {
	if h.Stuck.Load() {
		return
	}
	_ = tx.Rollback() // Rollback reads no page, and fails after a commit.
}

// Discard closes and removes a new file that has no final name yet.
func (h *Handle) Discard() error {
	return errors.Join(h.Close(), os.Remove(h.Path))
}

// Scan reads the keys of a bucket in order, and fails if they are out of order. If a flipped bit made a branch page
// point back into its own tree, a plain cursor would loop for ever.
type Scan struct {
	c     *bolt.Cursor
	begun bool
	last  []byte // last is the last key read, memory of the transaction.
	// Err is the damage that made Next or Seek return nil.
	Err error
}

// ScanAfter returns a Scan of the keys after the given key. Keys are never empty, so "" is before the first key.
func ScanAfter(b *bolt.Bucket, after string) *Scan {
	return &Scan{c: b.Cursor(), last: []byte(after)}
}

// Next returns the next key and its value; nil at the end.
func (s *Scan) Next() (k, v []byte) {
	switch {
	case s.Err != nil:
		return nil, nil
	case s.begun:
		return s.take(s.c.Next())
	}
	after := s.last
	if k, v = s.Seek(after); k != nil && bytes.Equal(k, after) {
		return s.take(s.c.Next())
	}
	return k, v
}

// Seek moves to the first key that is equal to or after the given key, and returns it with its value; nil at the end.
func (s *Scan) Seek(key []byte) (k, v []byte) {
	s.begun = true
	k, v = s.c.Seek(key)
	if k != nil && bytes.Compare(k, key) < 0 {
		return s.disorder()
	}
	s.last = k
	return k, v
}

func (s *Scan) take(k, v []byte) ([]byte, []byte) {
	if k != nil && bytes.Compare(k, s.last) <= 0 {
		return s.disorder()
	}
	s.last = k
	return k, v
}

func (s *Scan) disorder() (k, v []byte) {
	s.Err = &FaultError{What: "its keys are out of order"}
	return nil, nil
}

// SeekAfter moves the cursor to the first key after the given key, and returns it. Keys are never empty, so a nil key
// means the start of the bucket.
func SeekAfter(c *bolt.Cursor, after []byte) (k, v []byte) {
	k, v = c.Seek(after)
	if k != nil && bytes.Equal(k, after) {
		return c.Next()
	}
	return k, v
}
