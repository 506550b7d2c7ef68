package boltfile

import (
	"errors"
	"fmt"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/entry"
)

// Classify turns an error of a transaction of h into the error for the caller. If the file is damaged or overwritten,
// or the outcome of a commit is unknown, Classify makes the file fail.
func (f *File) Classify(h *Handle, err error) error {
	var fault *FaultError
	var failed *commitError
	switch {
	case errors.As(err, &fault):
		err = fmt.Errorf("%s: %w", f.Path, err)
		f.Fail(h, err)
	case errors.As(err, &failed):
		err = f.classify(h, failed)
	case errors.Is(err, entry.ErrDamaged):
		// A damaged record or index entry stops writes too, because other entries of its page may be damaged.
		err = fmt.Errorf("%s: %w", f.Path, err)
		f.Fail(h, err)
	case errors.Is(err, ErrOverwritten):
		err = fmt.Errorf("%s: %w", f.Path, err)
		f.Fail(h, err)
	}
	return err
}

// classify returns the error for a failed commit: ErrNoSpace if nothing was written for lack of space, and otherwise
// ErrOutcomeUnknown. Readers see a transaction once its meta page is written, even if the sync of that page then fails.
// After a crash, the transaction may or may not be in the file.
func (f *File) classify(h *Handle, failed *commitError) error {
	advanced := true
	err := h.View(func(tx *bolt.Tx) error {
		advanced = tx.ID() >= failed.TxID
		return nil
	})
	if err == nil && !advanced && isNoSpace(failed.Err) {
		return fmt.Errorf("write %s: %w: %w", f.Path, ErrNoSpace, failed.Err)
	}
	// Even if readers do not see the transaction, the sync of one of its pages may have failed. The kernel reports that
	// once, and then considers the page clean.
	err = fmt.Errorf("write %s: %w: %w", f.Path, ErrOutcomeUnknown, failed.Err)
	f.Fail(h, err)
	return err
}

// Fail stops all writes until the file is exchanged for a copy, if h is the current handle. It keeps the first reason,
// except that ErrOverwritten replaces it, which stops reads and exchanges too. Fail leaves a mark that makes the next
// process verify every page.
func (f *File) Fail(h *Handle, reason error) {
	if f.fail(h, reason) && !f.o.ReadOnly {
		f.leaveMark()
	}
}

// leaveMark makes the next process that opens the store verify every page, and move the file aside if it is damaged.
func (f *File) leaveMark() {
	if err := leaveMark(f.real); err != nil {
		f.Logger().Error(err, "No mark could be left for the next process that opens the store")
	}
}
