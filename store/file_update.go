package store

import (
	"context"
	"errors"
	"fmt"

	bolt "go.etcd.io/bbolt"

	"github.com/larder-dev/larder/entry"
	"github.com/larder-dev/larder/internal/hook"
	"github.com/larder-dev/larder/store/internal/boltfile"
)

// hooks lets tests simulate failing writes: bbolt does not accept another file layer.
type hooks struct {
	// commit is called instead of tx.Commit if it is set.
	commit func(tx *bolt.Tx) error
	// release is called before the writer's place is released, if it is set.
	release func()
}

func hooksOf(h *hook.Hooks) hooks {
	if h == nil || h.Commit == nil {
		return hooks{}
	}
	return hooks{commit: func(tx *bolt.Tx) error { return h.Commit(tx.Commit) }}
}

// view runs fn in one read transaction, which is closed when fn returns. Memory that fn gets from tx is valid until
// then. fn must not call view or update.
func (s *Store) view(ctx context.Context, fn func(tx *bolt.Tx) error) error {
	return s.viewHandle(ctx, func(_ *boltfile.Handle, tx *bolt.Tx) error { return fn(tx) })
}

// viewHandle is view with a function that gets the handle too.
func (s *Store) viewHandle(ctx context.Context, fn func(h *boltfile.Handle, tx *bolt.Tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	h, err := s.acquire()
	if err != nil {
		return err
	}
	defer h.Release()
	return s.settle(h, h.View(func(tx *bolt.Tx) error { return fn(h, tx) }))
}

// update runs fn in one write transaction and commits it. If update fails nothing was stored, unless the error wraps
// ErrOutcomeUnknown. It does not retry: fn runs at most once.
func (s *Store) update(ctx context.Context, fn func(tx *bolt.Tx) error) error {
	return s.updateFor(ctx, upkeep, fn)
}

// update runs fn in one write transaction, as Store.update does; errors of other waiters name the collection.
func (c *Collection) update(ctx context.Context, fn func(tx *bolt.Tx) error) error {
	return c.store.updateFor(ctx, c.writing(), fn)
}

func (c *Collection) writing() string { return "a write of " + c.id.String() }

// updateFor is update with a description of the write, which the errors of other waiters contain.
func (s *Store) updateFor(ctx context.Context, what string, fn func(tx *bolt.Tx) error) error {
	return s.updateThen(ctx, what, fn, func(error) {})
}

// updateThen is updateFor, and calls then with the result before the next writer starts. It does not call then if it
// fails before it has the writer's place.
func (s *Store) updateThen(ctx context.Context, what string, fn func(tx *bolt.Tx) error, then func(err error)) error {
	if s.ReadOnly() {
		return fmt.Errorf("%s: %w", s.path, ErrReadOnly)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	release, err := s.takeWriter(ctx, what)
	if err != nil {
		return err
	}
	defer release()
	err = s.updateHeld(ctx, what, fn)
	then(err)
	return err
}

// updateHeld is updateFor for a caller that has the writer's place.
func (s *Store) updateHeld(ctx context.Context, what string, fn func(tx *bolt.Tx) error) error {
	if err := s.Err(); err != nil {
		return fmt.Errorf("nothing is written any more: %w", err)
	}
	if err := s.keepName(ctx); err != nil {
		return err
	}
	return s.updateOpen(what, fn)
}

// updateOpen is updateHeld without the check that the open file still has the store's name.
func (s *Store) updateOpen(what string, fn func(tx *bolt.Tx) error) error {
	h, err := s.acquire()
	if err != nil {
		return err
	}
	defer h.Release()
	if frees(what) { // the transaction allocates pages before its freed ones can be reused
		limit := h.DB.MaxSize
		h.DB.MaxSize = 0
		defer func() { h.DB.MaxSize = limit }()
	}
	commit := s.hooks.commit
	if commit == nil {
		commit = (*bolt.Tx).Commit
	}
	err = s.settle(h, h.Update(fn, commit))
	if errors.Is(err, ErrOutcomeUnknown) {
		s.counts.Renew()
	}
	if errors.Is(err, ErrNoSpace) && !frees(what) {
		s.makeRoom()
	}
	return err
}

// frees reports whether a write may grow the file past Options.MaxSize, because it frees pages.
func frees(what string) bool { return what == dropping || what == forgetting || what == trimming }

// settle turns an error of a transaction into the error for the caller. If the file is damaged, or the outcome of a
// commit unknown, settle fails the store.
func (s *Store) settle(h *boltfile.Handle, err error) error {
	var fault *boltfile.FaultError
	var failed *boltfile.CommitError
	switch {
	case errors.As(err, &fault):
		err = fmt.Errorf("%s: %w", s.path, err)
		s.fail(h, err)
	case errors.As(err, &failed):
		err = s.classify(h, failed)
	case errors.Is(err, entry.ErrDamaged):
		// A record or an index entry is damaged: its page may have lost more than that.
		err = fmt.Errorf("%s: %w", s.path, err)
		s.fail(h, err)
	case errors.Is(err, ErrClosed):
		err = fmt.Errorf("%s: %w", s.path, err)
	}
	return err
}

// classify returns the error for a commit that failed: ErrNoSpace if nothing was written for lack of space, else
// ErrOutcomeUnknown. Readers see a transaction once its meta page is written, which may be before the sync of that page
// fails; after a crash such a transaction may be there or not.
func (s *Store) classify(h *boltfile.Handle, failed *boltfile.CommitError) error {
	advanced := true
	err := h.View(func(tx *bolt.Tx) error {
		advanced = tx.ID() >= failed.TxID
		return nil
	})
	if err == nil && !advanced && boltfile.IsNoSpace(failed.Err) {
		return fmt.Errorf("write %s: %w: %w", s.path, ErrNoSpace, failed.Err)
	}
	// Even if readers do not see the transaction, the sync of one of its pages may have failed: the kernel reports that
	// once, and then takes the page for clean.
	err = fmt.Errorf("write %s: %w: %w", s.path, ErrOutcomeUnknown, failed.Err)
	s.fail(h, err)
	return err
}

// takeIntoUseLocked makes h the store's file, and clears the failure of the old one.
func (s *Store) takeIntoUseLocked(h *boltfile.Handle) {
	s.replaceHandleLocked(h)
	if s.failure != nil {
		s.failure, s.failed = nil, make(chan struct{})
	}
}

func (s *Store) replaceHandleLocked(h *boltfile.Handle) {
	if s.handle != nil {
		s.written += s.handle.Written.Load()
	}
	s.handle = h
}

// fail stops all writing until Rebuild, if h is the store's current file. The first reason stays. fail leaves a mark:
// the next process that opens the file verifies every page first, and moves the file aside if it is damaged.
func (s *Store) fail(h *boltfile.Handle, reason error) {
	s.mu.Lock()
	first := s.handle == h && s.failure == nil
	if first {
		s.failure = reason
		close(s.failed)
	}
	s.mu.Unlock()
	if first && !s.ReadOnly() {
		s.leaveMark()
	}
}

// acquire returns the current handle, which the caller releases soon. It fails with ErrClosed once the store is closed.
func (s *Store) acquire() (*boltfile.Handle, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.handle == nil {
		return nil, fmt.Errorf("%s: %w", s.path, ErrClosed)
	}
	s.handle.Users.Add(1)
	return s.handle, nil
}

// leaveMark leaves a mark that makes the next process that opens the store verify it.
func (s *Store) leaveMark() {
	if err := boltfile.LeaveMark(s.real); err != nil {
		s.logger().Error(err, "No mark could be left for the next process that opens the store")
	}
}
