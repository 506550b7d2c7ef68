package boltfile

import (
	"errors"
	"fmt"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/entry"
)

// Err returns the error for which the file is not written, until an exchange: it wraps ErrOutcomeUnknown or ErrDamaged.
// It returns nil while the file works.
func (f *File) Err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.failure
}

// Failed returns a channel that is closed once Err is not nil. An exchange replaces the channel by a new one.
func (f *File) Failed() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.failed
}

// Settle turns an error of a transaction of h into the error for the caller. If the file is damaged, or the outcome of
// a commit unknown, the file fails.
func (f *File) Settle(h *Handle, err error) error {
	var fault *FaultError
	var failed *CommitError
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
	case errors.Is(err, ErrClosed):
		err = fmt.Errorf("%s: %w", f.Path, err)
	}
	return err
}

// classify returns the error for a commit that failed: ErrNoSpace if nothing was written for lack of space, else
// ErrOutcomeUnknown. Readers see a transaction once its meta page is written, which may be before the sync of that page
// fails; after a crash such a transaction may be there or not.
func (f *File) classify(h *Handle, failed *CommitError) error {
	advanced := true
	err := h.View(func(tx *bolt.Tx) error {
		advanced = tx.ID() >= failed.TxID
		return nil
	})
	if err == nil && !advanced && IsNoSpace(failed.Err) {
		return fmt.Errorf("write %s: %w: %w", f.Path, ErrNoSpace, failed.Err)
	}
	// Even if readers do not see the transaction, the sync of one of its pages may have failed: the kernel reports that
	// once, and then takes the page for clean.
	err = fmt.Errorf("write %s: %w: %w", f.Path, ErrOutcomeUnknown, failed.Err)
	f.Fail(h, err)
	return err
}

// Fail stops all writing until an exchange, if h is the current handle. The first reason stays. Fail leaves a mark: the
// next process that opens the file verifies every page first, and moves the file aside if it is damaged.
func (f *File) Fail(h *Handle, reason error) {
	f.mu.Lock()
	first := f.handle == h && f.failure == nil
	if first {
		f.failure = reason
		close(f.failed)
	}
	f.mu.Unlock()
	if first && !f.o.ReadOnly {
		f.leaveMark()
	}
}

// IsCurrent reports whether h is the current handle: an exchange replaces it, and Close.
func (f *File) IsCurrent(h *Handle) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.handle == h
}

// leaveMark leaves a mark that makes the next process that opens the file verify it.
func (f *File) leaveMark() {
	if err := LeaveMark(f.real); err != nil {
		f.Logger().Error(err, "No mark could be left for the next process that opens the store")
	}
}

// takeIntoUseLocked makes h the current handle, and clears the failure of the old one.
func (f *File) takeIntoUseLocked(h *Handle) {
	f.replaceHandleLocked(h)
	if f.failure != nil {
		f.failure, f.failed = nil, make(chan struct{})
	}
}

func (f *File) replaceHandleLocked(h *Handle) {
	if f.handle != nil {
		f.written += f.handle.Written.Load()
	}
	f.handle = h
}
