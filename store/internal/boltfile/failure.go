package boltfile

import (
	"errors"
	"fmt"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/entry"
)

// Settle turns an error of a transaction of h into the error for the caller. If the file is damaged, or the outcome of
// a commit unknown, the file fails.
func (f *File) Settle(h *Handle, err error) error {
	var fault *FaultError
	var failed *commitError
	switch {
	case errors.As(err, &fault):
		err = fmt.Errorf("%s: %w", f.Path, err)
		f.Fail(h, err)
	case errors.As(err, &failed):
		err = f.classify(h, failed)
	case errors.Is(err, entry.ErrDamaged):
		// A record or an index entry is damaged: its page may have lost more than that.
		err = fmt.Errorf("%s: %w", f.Path, err)
		f.Fail(h, err)
	case errors.Is(err, ErrOverwritten):
		err = fmt.Errorf("%s: %w", f.Path, err)
		f.Fail(h, err)
	}
	return err
}

// classify returns the error for a commit that failed: ErrNoSpace if nothing was written for lack of space, else
// ErrOutcomeUnknown. Readers see a transaction once its meta page is written, which may be before the sync of that page
// fails; after a crash such a transaction may be there or not.
func (f *File) classify(h *Handle, failed *commitError) error {
	advanced := true
	err := h.View(func(tx *bolt.Tx) error {
		advanced = tx.ID() >= failed.TxID
		return nil
	})
	if err == nil && !advanced && isNoSpace(failed.Err) {
		return fmt.Errorf("write %s: %w: %w", f.Path, ErrNoSpace, failed.Err)
	}
	// Even if readers do not see the transaction, the sync of one of its pages may have failed: the kernel reports that
	// once, and then takes the page for clean.
	err = fmt.Errorf("write %s: %w: %w", f.Path, ErrOutcomeUnknown, failed.Err)
	f.Fail(h, err)
	return err
}

// Fail stops all writing until an exchange, if h is the current handle. The first reason stays, unless the file has
// been overwritten since, after which it is not read either, and not exchanged. Fail leaves a mark: the next process
// that opens the file verifies every page first, and moves the file aside if it is damaged.
func (f *File) Fail(h *Handle, reason error) {
	if f.fail(h, reason) && !f.o.ReadOnly {
		f.leaveMark()
	}
}

// leaveMark leaves a mark that makes the next process that opens the file verify it.
func (f *File) leaveMark() {
	if err := leaveMark(f.real); err != nil {
		f.Logger().Error(err, "No mark could be left for the next process that opens the store")
	}
}
