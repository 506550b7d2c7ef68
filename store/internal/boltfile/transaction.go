package boltfile

import (
	"context"
	"errors"
	"fmt"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/internal/boltcheck"
)

// View runs fn in one read transaction. Memory from tx is valid until fn returns. fn must not call View or Update.
func (f *File) View(ctx context.Context, fn func(tx *bolt.Tx) error) error {
	return f.ViewHandle(ctx, func(_ *Handle, tx *bolt.Tx) error { return fn(tx) })
}

func (f *File) ViewHandle(ctx context.Context, fn func(h *Handle, tx *bolt.Tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	h, err := f.acquire()
	if err != nil {
		return err
	}
	defer h.Release()
	return f.Classify(h, h.View(func(tx *bolt.Tx) error { return fn(h, tx) }))
}

// ViewFile calls fn in a read transaction, with the file's size and the transaction's id, so that fn can read pages of
// h.File. It repeats the call while fn fails with ErrOvertaken, which means that writers have reused pages. If fn finds
// damage, the File refuses writes from then on.
func (f *File) ViewFile(ctx context.Context, fn func(h *Handle, size int64, txid uint64) error) error {
	err := boltcheck.ErrOvertaken
	for errors.Is(err, boltcheck.ErrOvertaken) {
		err = f.ViewHandle(ctx, func(h *Handle, tx *bolt.Tx) error {
			info, err := h.File.Stat()
			if err != nil {
				return err
			}
			return OwnErrors(fn(h, info.Size(), uint64(tx.ID()))) // Classify makes the File fail if OwnErrors reports damage.
		})
	}
	return err
}

// VerifyIdentity begins a read transaction once per interval until ctx ends or the file is closed or overwritten. So an
// idle store, too, notices that another file was copied over its file.
func (f *File) VerifyIdentity(ctx context.Context, interval time.Duration) {
	for {
		select {
		case <-time.After(interval):
		case <-ctx.Done():
			return
		}
		err := f.View(ctx, func(*bolt.Tx) error { return nil })
		if errors.Is(err, ErrOverwritten) || errors.Is(err, ErrClosed) {
			return
		}
	}
}

// Update runs fn in one write transaction and commits it. If Update fails, nothing was stored, unless the error wraps
// ErrOutcomeUnknown. Update does not retry: fn runs at most once.
func (f *File) Update(ctx context.Context, w Work, fn func(tx *bolt.Tx) error) error {
	return f.UpdateThen(ctx, w, fn, func(error) {})
}

// UpdateThen is Update, and calls then with the result before the next writer starts, if it got the writer lock.
func (f *File) UpdateThen(ctx context.Context, w Work, fn func(tx *bolt.Tx) error, then func(err error)) error {
	if f.o.ReadOnly {
		return fmt.Errorf("%s: %w", f.Path, ErrReadOnly)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	release, err := f.TakeWriter(ctx, w)
	if err != nil {
		return err
	}
	defer release()
	err = f.UpdateHeld(ctx, w, fn)
	then(err)
	return err
}

// UpdateHeld is Update for a caller that holds the writer lock.
func (f *File) UpdateHeld(ctx context.Context, w Work, fn func(tx *bolt.Tx) error) error {
	if err := f.Err(); err != nil {
		return fmt.Errorf("nothing is written any more: %w", err)
	}
	if err := f.KeepName(ctx); err != nil {
		return err
	}
	return f.updateOpen(w, fn)
}

// updateOpen is UpdateHeld without the check that the open file still has its name.
func (f *File) updateOpen(w Work, fn func(tx *bolt.Tx) error) error {
	h, err := f.acquire()
	if err != nil {
		return err
	}
	defer h.Release()
	if w.Frees {
		limit := h.DB.MaxSize
		h.DB.MaxSize = 0
		defer func() { h.DB.MaxSize = limit }()
	}
	commit := f.Commit
	if commit == nil {
		commit = (*bolt.Tx).Commit
	}
	err = f.Classify(h, h.Update(f.unmarking(fn), commit))
	if err != nil {
		f.o.WriteFailed(w, err)
		return err
	}
	f.markedClean = false
	return nil
}

// unmarking returns fn, which also removes the key of a clean close from the root bucket while markedClean is set.
func (f *File) unmarking(fn func(tx *bolt.Tx) error) func(tx *bolt.Tx) error {
	if !f.markedClean {
		return fn
	}
	return func(tx *bolt.Tx) error { return errors.Join(fn(tx), PutClean(tx, false)) }
}

// Close closes the file, and marks it as cleanly closed, unless it has failed or is open for reading. The caller has
// called CloseBackground and taken the writer lock. stuck is true if bbolt could not end a transaction.
func (f *File) Close() (stuck bool, err error) {
	f.WaitBackground(0)
	h, failure := f.remove()
	if h == nil {
		return false, nil
	}
	if !f.o.ReadOnly && failure == nil {
		err := h.Update(func(tx *bolt.Tx) error {
			return errors.Join(f.PutTimes(tx), PutClean(tx, true))
		}, (*bolt.Tx).Commit)
		if err != nil {
			f.Logger().Error(err, "The store could not be marked as closed cleanly; it will be verified when it is next opened")
		}
	}
	err = h.Close()
	return h.Stuck.Load(), err
}
